"""The second stage: items against PyTorch, and the same results however the run is cut or interrupted."""

from pathlib import Path

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import run_both
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.runs.merge import merge
from negengine.engine.text.pattern import Pattern, PatternSet
from transformers import AutoModelForMaskedLM, AutoTokenizer

from .conftest import LEXICON, RANKS, execution, results

MINI = Path(__file__).parents[4] / "export" / "mini"
PUBLISHERS = {stage.name: stage.publish for stage in (Acts, Repetitions)}

pytestmark = pytest.mark.usefixtures("one_thread")


def test_items_equal_pytorch_sentence_by_sentence(finished):
    tokenizer, model = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()
    assert len(finished.items) == LEXICON.n_pairs * len(RANKS) * 24
    for row in finished.items.sample(60, seed=1).iter_rows(named=True):
        (pattern,) = [p for p in load_variant(Variant(row["condition"])).scored if p.name == row["pattern"]]
        fillers = {"NAME": row["name"], "PROF": row["profession"], "PRON": row["pronoun"]}
        fillers |= {"ACT": row["act"], "ACT1": row["act1"], "ACT2": row["act2"]}
        inputs = tokenizer(pattern.text(fillers, "[MASK]"), return_tensors="pt")
        with torch.inference_mode():
            (scores,) = model(**inputs).logits[inputs["input_ids"] == tokenizer.mask_token_id]
        top1 = int(scores.argmax())
        act = tokenizer.convert_tokens_to_ids(row["act"])
        named = [row["act"], row["act1"], row["act2"]] if row["condition"] == "coordinated" else [row["act"]]
        text = tokenizer.convert_ids_to_tokens(top1)
        assert row["top1"] == text
        assert row["repeated"] == (top1 == act)
        assert row["repeated_any"] == (text in named)
        assert row["top1_is_verb"] == (text in LEXICON.verbs)
        assert row["expected_rank"] == 1 + int((scores > scores[act]).sum())
        assert row["expected_logprob"] == pytest.approx(scores.log_softmax(-1)[act].item(), abs=1e-4)
        assert row["top1_logprob"] == pytest.approx(scores.log_softmax(-1).max().item(), abs=1e-4)


def test_shards_are_merged_to_the_same_bytes(in_parts, acts, original, tmp_path):
    """Every shard has all ACTs; the merged run takes them over."""
    shards = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(shards, 1):
        run_both(acts, original, folder, execution(shard=f"{number}/2"), acts_per_part=5)
        assert set(results(folder)) == {"acts.parquet"}
    assert merge(shards, tmp_path / "whole", PUBLISHERS) == "gh22"
    assert results(tmp_path / "whole") == results(in_parts.folder)


def test_a_sentence_that_is_too_long_is_refused_before_a_model_is_opened(acts, in_parts):
    long = Pattern("1P", "{NAME} is {PROF} who likes to {ACT}.", "{PRON} is" + " very" * 600 + " happy to {MASK}.")
    patterns = PatternSet("long", acts.pattern, (long,))
    stage = Repetitions.plan(acts, in_parts.acts, {Variant.ORIGINAL: patterns})
    with pytest.raises(InputError, match=r"original 1P: 6\d\d tokens"):
        stage.check(lambda _: None)
