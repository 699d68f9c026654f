"""Random samples of a run's rows; and one recorded item against logits: what agrees, is a near-tie, or is wrong."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.again import Question, Verdict, drawn

WORDS = ["smoke", "dance", "sing", "swim"]
LOGITS = [3.0, 2.0, 1.0, -1.0]
LOGPROB = float(2 - np.log(np.exp(LOGITS).sum()))
VOCABULARY = SimpleNamespace(word_text=lambda choices: " ".join(WORDS[choice] for choice in choices))


def judged(*logits, **recorded):
    """The verdict on what was recorded; the logits are those of one mask or of several."""
    question = Question("an item", "a text", VOCABULARY, **recorded)
    return question.compare(np.array(logits or [LOGITS], np.float32))


FIRST, SECOND, UNRANKED = {"tokens": ((0,),)}, {"tokens": ((1,),)}, {"unranked": (np.array([0]),)}
CASES = [  # what was recorded, and why it is wrong
    ({**SECOND, "is_first": False, "rank": 2, "logprob": LOGPROB, "answer": "smoke"}, ""),
    ({"tokens": ((2, 1),), "is_first": False, "rank": 2}, ""),
    ({**SECOND, "accepted": (0,), "is_first": True, "rank": 2}, ""),
    ({**SECOND, "is_first": True, "rank": 1, "answer": "dance", "logprob": LOGPROB, **UNRANKED}, ""),
    ({**FIRST, "is_first": False}, "another word was first, but now the expected word was first"),
    ({**SECOND, "is_first": True}, "the expected word was first, but now another word was first"),
    ({**SECOND, "is_first": False, "rank": 3}, "rank 3, but now 2"),
    ({**SECOND, "logprob": LOGPROB - 0.01}, "log-probability -1.4"),
    ({**SECOND, "logprob": LOGPROB, **UNRANKED, "among_ranked": True}, "but now -0.3"),
    ({"answer": "sing"}, "the first choice was 'sing', but now 'smoke'"),
    ({"answer": "smoke", "answer_logprob": -1.0}, "log-probability of the first choice"),
    ({"is_first": True}, "not one token"),
]


@pytest.mark.parametrize(("recorded", "why"), CASES)
def test_what_was_recorded_agrees_or_is_wrong_and_named(recorded, why):
    verdict, said = judged(**recorded)
    assert (verdict, bool(said)) == (Verdict.WRONG if why else Verdict.AGREES, bool(why))
    assert why in said


def test_what_rounding_can_change_is_no_error_and_an_answer_can_end_with_the_first_other_token():
    close, agree, wrong = [3.0, 2.9999, 2.9999, -1.0], Verdict.AGREES, Verdict.WRONG
    assert [judged(close, **SECOND, rank=rank)[0] for rank in (1, 2, 3, 4)] == [agree, agree, agree, wrong]
    assert [judged(close, answer=answer)[0] for answer in WORDS] == [agree, agree, agree, wrong]
    word = {"tokens": ((1,), (0,))}
    assert [judged(close, LOGITS, **word, answer=f"sing {end}")[0] for end in ("smoke", "dance")] == [agree, wrong]
    three = {"tokens": ((0,), (1,), (2,)), "is_first": False, "answer": "smoke smoke"}
    assert [judged(LOGITS, LOGITS, LOGITS, **three, cut=cut)[0] for cut in (True, False)] == [agree, wrong]


@pytest.mark.parametrize(
    ("margins", "is_first", "verdict"),
    [
        ([1.0, 1e-5], False, Verdict.NEAR_TIE),
        ([1.0, -1e-5], True, Verdict.NEAR_TIE),
        ([-3e-4], True, Verdict.WRONG),
        ([-1.0, 1.0], False, Verdict.AGREES),
        ([1.0, 0.0], True, Verdict.AGREES),  # of equal logits the smaller id is first: it can be either
        ([0.0], False, Verdict.AGREES),
    ],
)
def test_the_query_that_would_have_to_come_out_in_another_way_decides(margins, is_first, verdict):
    logits = [[margin, 0, -2] for margin in margins]
    assert judged(*logits, tokens=((0,),) * len(margins), is_first=is_first)[0] is verdict


def test_a_sample_has_rows_of_the_table_in_their_order_by_the_seed():
    rows = pl.LazyFrame({"item": range(1000)})
    found = drawn(rows, 20, 3).collect()
    assert found["item"].is_sorted()
    assert found["item"].n_unique() == 20
    assert found.equals(drawn(rows, 20, 3).collect())
    assert {item for seed in range(200) for item in drawn(rows.head(20), 5, seed).collect()["item"]} == set(range(20))
    assert drawn(rows, 2000, 0).collect().equals(rows.collect())
    for n, seed, said in ((0, 0, "a sample of 0"), (1, -1, "seed -1")):
        with pytest.raises(InputError, match=said):
            drawn(rows, n, seed)
