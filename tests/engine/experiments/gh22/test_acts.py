"""The model's own choice of ACTs, against PyTorch sentence by sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern import Pattern
from transformers import AutoModelForMaskedLM, AutoTokenizer

from .conftest import LEXICON, RANKS

MINI = Path(__file__).parents[4] / "export" / "mini"

pytestmark = pytest.mark.usefixtures("one_thread")


def test_acts_are_the_models_own_predictions_at_their_ranks(finished):
    """transformers ranks the whole vocabulary; special tokens, which are not words, are taken out."""
    tokenizer, model = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()
    assert 0 < finished.acts["act_is_verb"].sum() < len(finished.acts)
    assert finished.acts.select("pair", "rank").n_unique() == len(finished.acts) == LEXICON.n_pairs * len(RANKS)
    for (name, profession, pronoun), rows in finished.acts.group_by("name", "profession", "pronoun"):
        inputs = tokenizer(f"{name} is {profession} and {pronoun} likes to [MASK]", return_tensors="pt")
        with torch.inference_mode():
            (scores,) = model(**inputs).logits[inputs["input_ids"] == tokenizer.mask_token_id]
        order = [i for i in scores.argsort(descending=True).tolist() if i not in tokenizer.all_special_ids]
        for row in rows.iter_rows(named=True):
            wanted = order[row["rank"] - 1 : row["rank"] + 2]
            assert [row["act_id"], row["act1_id"], row["act2_id"]] == wanted
            assert [row["act"], row["act1"], row["act2"]] == tokenizer.convert_ids_to_tokens(wanted)
            assert row["act_is_verb"] == (row["act"] in LEXICON.verbs)
            assert row["act_logprob"] == pytest.approx(scores.log_softmax(-1)[wanted[0]].item(), abs=1e-4)


def test_pronouns_are_the_lexicons(mini):
    """No pronoun stands in the code: a lexicon with others gives sentences and rows with them."""
    words = Lexicon(("Anna", "John"), ("f", "m"), ("a dancer",), ("smoke",), pronouns={"f": "they", "m": "we"})
    acts = Acts.plan(mini, words, load_variant(Variant.ORIGINAL).selecting, ranks=[1])
    (text,) = acts.tokenizer.backend.decode_batch([acts.prepare(0)[0].ids[0].tolist()], skip_special_tokens=False)
    assert "and they likes to" in text
    ids = np.full((2, 3), 200)
    assert acts._rows(range(2), ids, np.zeros((2, 3)))["pronoun"].to_list() == ["they", "we"]


def test_ranks_and_sentences_that_cannot_choose_are_refused_before_a_model_is_opened(mini):
    for ranks in ([0, 1], [], [10**6]):
        with pytest.raises(InputError, match=r"--ranks.*: give (a number from 1 to \d+|at least one)"):
            Acts.plan(mini, LEXICON, load_variant(Variant.ORIGINAL).selecting, ranks=ranks)
    with pytest.raises(InputError, match="has the slot 'ACT'; it may have NAME, PROF, PRON"):
        Acts.plan(mini, LEXICON, Pattern("ACT", "{NAME} likes to {ACT} and {MASK}"))
    long = Acts.plan(mini, LEXICON, Pattern("ACT", "{NAME} is {PROF} and" + " very" * 600 + " {MASK}"), ranks=[1])
    with pytest.raises(InputError, match=r"ACT: 6\d\d tokens"):
        long.check(lambda _: None)
