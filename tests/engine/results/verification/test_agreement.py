"""One recorded item against logits: what agrees, what is a near-tie, what is wrong."""

import numpy as np
import pytest
from negengine.engine.results.verification.agreement import Recorded, Verdict, compare

WORDS = ["smoke", "dance", "sing", "swim"]
LOGITS = np.array([3.0, 2.0, 1.0, -1.0], np.float32)
LOGPROB = float(LOGITS[1] - np.log(np.exp(LOGITS).sum()))


def judged(logits=LOGITS, **recorded):
    item = Recorded("an item", "a text", **recorded)
    found = compare(item, np.array(logits, np.float32), WORDS.__getitem__)
    return found.verdict, found.why


@pytest.mark.parametrize(
    "recorded",
    [
        {"tokens": (0,), "is_first": True, "rank": 1, "answer": "smoke"},
        {"tokens": (1,), "is_first": False, "rank": 2, "logprob": LOGPROB, "answer": "smoke"},
        {"tokens": (2, 1), "is_first": False, "rank": 2},
        {"answer": "smoke", "answer_logprob": LOGPROB + 1},
        {"tokens": (), "is_first": False},
    ],
)
def test_what_was_recorded_agrees(recorded):
    assert judged(**recorded) == (Verdict.AGREES, "")


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        ({"tokens": (0,), "is_first": False}, "another word was first, but now the expected word was first"),
        ({"tokens": (1,), "is_first": True}, "the expected word was first, but now another word was first"),
        ({"tokens": (1,), "is_first": False, "rank": 3}, "rank 3, but now 2"),
        ({"tokens": (1,), "logprob": LOGPROB - 0.01}, "log-probability -1.4"),
        ({"answer": "sing"}, "the first choice was 'sing', but now 'smoke'"),
        ({"answer": "smoke", "answer_logprob": -1.0}, "log-probability of the first choice"),
        ({"tokens": (), "is_first": True}, "not one token"),
        ({"tokens": (), "is_first": False, "rank": 4}, "not one token"),
    ],
)
def test_what_differs_is_wrong_and_named(recorded, why):
    verdict, said = judged(**recorded)
    assert verdict is Verdict.WRONG
    assert why in said


def test_a_decision_closer_than_rounding_is_a_near_tie():
    logits = [3.0, 3.00005, 1.0, -1.0]
    assert judged(logits, tokens=(0,), is_first=True)[0] is Verdict.NEAR_TIE
    assert judged([3.0, 3.0003, 1.0, -1.0], tokens=(0,), is_first=True)[0] is Verdict.WRONG


def test_equal_logits_can_be_either_decision():
    for is_first in (True, False):
        assert judged([3.0, 3.0, 1.0, -1.0], tokens=(1,), is_first=is_first, rank=1)[0] is Verdict.AGREES


def test_ranks_and_first_choices_may_change_by_rounding():
    logits = [3.0, 2.9999, 2.9999, -1.0]
    for rank in (1, 2, 3):
        assert judged(logits, tokens=(1,), rank=rank)[0] is Verdict.AGREES
    assert judged(logits, tokens=(1,), rank=4)[0] is Verdict.WRONG
    for answer in WORDS[:3]:
        assert judged(logits, answer=answer)[0] is Verdict.AGREES


def test_tokens_without_a_rank_do_not_count():
    unranked = np.array([0])
    assert judged(tokens=(1,), is_first=True, rank=1, answer="dance", unranked=unranked)[0] is Verdict.AGREES
    assert judged(tokens=(1,), logprob=LOGPROB, unranked=unranked)[0] is Verdict.AGREES
