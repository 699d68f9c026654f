"""Both stages against PyTorch, sentence by sentence; what they refuse; the same results from shards."""

from pathlib import Path

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22_patterns import Variant
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.runs.merge import merge
from negengine.engine.text.pattern import Pattern, PatternSet
from select_and_score import files
from transformers import AutoModelForMaskedLM, AutoTokenizer

from .conftest import LEXICON, ORIGINAL, RANKS, VARIANTS, run

MINI = Path(__file__).parents[4] / "export" / "mini"
SENTENCE = VARIANTS[Variant.ORIGINAL].selecting

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pytorch():
    """The tokenizer, and the function of a text that gives the logits at its mask."""
    tokenizer, model = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()

    @torch.inference_mode()
    def logits(text):
        inputs = tokenizer(text, return_tensors="pt")
        (found,) = model(**inputs).logits[inputs["input_ids"] == tokenizer.mask_token_id]
        return found

    return tokenizer, logits


TARGETS = ["likes to", "does like to", "really likes to", "really does like to"]


@pytest.mark.parametrize(
    ("variant", "acts", "connectives"),
    [
        ("original", "{ACT}", {"P": "", "N": ""}),
        ("connective", "{ACT}", {"P": "So, ", "N": "However, "}),
        ("coordinated", "{ACT}, {ACT1} or {ACT2}", {"P": "", "N": ""}),
    ],
)
def test_the_eight_patterns_of_each_variant_are_those_of_the_papers(variant, acts, connectives):
    contexts = {"P": f"who tries to {acts} as often as possible.", "N": f"who doesn't like to {acts}."}
    assert {pattern.name: pattern.sentence for pattern in VARIANTS[variant].scored} == {
        f"{number}{end}": f"{{NAME}} is {{PROF}} {context} {connectives[end]}{{PRON}} {target} {{MASK}}."
        for number, target in enumerate(TARGETS, 1)
        for end, context in contexts.items()
    }
    assert VARIANTS[variant].selecting.sentence == "{NAME} is {PROF} and {PRON} likes to {MASK}"


def test_acts_are_the_models_own_predictions_at_their_ranks(finished, pytorch):
    """transformers ranks the whole vocabulary; special tokens, which are not words, are taken out."""
    tokenizer, logits = pytorch
    assert set(finished.acts["pronoun"]) == {"she", "they"}  # no pronoun stands in the code
    assert 0 < finished.acts["act_is_verb"].sum() < len(finished.acts)
    assert finished.acts.select("pair", "rank").n_unique() == len(finished.acts) == LEXICON.n_pairs * len(RANKS)
    for (name, profession, pronoun), rows in finished.acts.group_by("name", "profession", "pronoun"):
        scores = logits(f"{name} is {profession} and {pronoun} likes to [MASK]")
        order = [i for i in scores.argsort(descending=True).tolist() if i not in tokenizer.all_special_ids]
        for row in rows.iter_rows(named=True):
            wanted = order[row["rank"] - 1 : row["rank"] + 2]
            assert [row["act_id"], row["act1_id"], row["act2_id"]] == wanted
            assert [row["act"], row["act1"], row["act2"]] == tokenizer.convert_ids_to_tokens(wanted)
            assert row["act_is_verb"] == (row["act"] in LEXICON.verbs)
            assert row["act_logprob"] == pytest.approx(scores.log_softmax(-1)[wanted[0]].item(), abs=1e-4)


def test_shards_are_merged_to_the_same_bytes(in_parts, acts, tmp_path):
    shards = [run(acts, ORIGINAL, tmp_path / str(i), shard=f"{i}/2", acts_per_part=5) for i in (1, 2)]
    assert [[path.name for path in shard.glob("*.parquet")] for shard in shards] == [["acts.parquet"]] * 2
    publishers = {stage.name: stage.publish for stage in (Acts, Repetitions)}
    assert merge(shards, tmp_path / "whole", publishers) == "gh22"
    assert files(tmp_path / "whole") == files(in_parts.folder)


def test_ranks_and_sentences_that_cannot_be_asked_are_refused_before_a_model_is_opened(mini, acts, in_parts):
    with pytest.raises(InputError, match="has the slot 'ACT'; it may have NAME, PROF, PRON"):
        Acts.plan(mini, LEXICON, Pattern("ACT", "{NAME} likes to {ACT} and {MASK}"))
    long = " very" * 600
    with pytest.raises(InputError, match=r"ACT: 6\d\d tokens"):
        Acts.plan(mini, LEXICON, Pattern("ACT", f"{{NAME}} is {{PROF}} and{long} {{MASK}}"), ranks=[1]).check(print)
    pattern = Pattern("1P", "{NAME} is {PROF} who likes to {ACT}.", f"{{PRON}} is{long} happy to {{MASK}}.")
    patterns = {Variant.ORIGINAL: PatternSet("long", SENTENCE, (pattern,))}
    with pytest.raises(InputError, match=r"original 1P: 6\d\d tokens"):
        Repetitions.plan(acts, in_parts.acts, patterns).check(print)
