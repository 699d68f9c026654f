"""LAMA on a causal model: facts whose queries end in the answer count, the others are excluded and counted."""

import pytest
from asked_stages import lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.ask import NOT_READ
from negengine.engine.experiments.lama.facts import Fact, Facts
from negengine.engine.inference.causal import open_language_model

QUERIES = {
    "smoke": "Jessica is happy to [MASK] .",
    "dance": "John likes to [MASK].",
    "Jessica": "[MASK] is a dancer.",
    "sing": "Maria likes to [MASK] and dance.",
}


def facts(queries):
    made = [
        Fact("TREx", "P36", "Squad", gold, query, negated=query.replace("is ", "is not "), misprimed={},
             identifier="", location=f"facts.jsonl:{line}")
        for line, (gold, query) in enumerate(queries.items(), 1)
    ]  # fmt: skip
    return Facts(tuple(made), {})


def test_facts_whose_queries_end_in_the_answer_count(causal):
    exported = causal("gpt2")
    stage = lama_stage(exported, facts(QUERIES))
    stage.check(lambda _: None)
    part = stage.decide(open_language_model(exported), 0, None, lambda *_: None)
    assert part.rows["gold"].to_list() == ["smoke", "dance"]
    assert part.counts == {NOT_READ: 2}


def test_data_without_such_a_fact_is_refused_with_the_reason(causal):
    last_two = dict(list(QUERIES.items())[2:])
    with pytest.raises(InputError, match=rf"none of 2 facts counts \(2: {NOT_READ}\)"):
        lama_stage(causal("gpt2"), facts(last_two)).check(lambda _: None)
