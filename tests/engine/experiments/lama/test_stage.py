"""Negated LAMA on hand-made logits; which facts count. `verify` asks a run's facts again, one by one."""

import numpy as np
import polars as pl
import pytest
from asked_stages import Given, decided, lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.ask import NOT_RANKED, NOT_READ, SEVERAL
from negengine.engine.experiments.lama.facts import Fact, Facts
from negengine.engine.experiments.lama.lama import SAME, Lama
from negengine.engine.experiments.vocabulary import LIST, Ranked
from negengine.engine.inference.causal import open_language_model
from negengine.engine.inference.model import MaskedLM

ANSWERS = ["france", "italy", "spain", "germany", "russia"]


def facts(*rows):
    """From relation, subject, answer, and a query with what its negation has more in brackets."""
    made = []
    for i, (relation, subject, gold, text) in enumerate(rows, 1):
        texts = (text.replace("(not )", word) for word in ("", "not "))
        made.append(Fact("TREx", relation, subject, gold, *texts, {}, "", f"f:{i}"))
    return Facts(tuple(made), {})


def capitals(*answers):
    return facts(*(("P36", str(i), gold, f"The capital of {i} is (not )[MASK] .") for i, gold in enumerate(answers)))


def test_hand_made_logits(mini, mini_tokenizer):
    """Probabilities of france, italy, spain, germany, russia, and of `the`, which is not kept and never in the way.

    Rome: ranks 1 2 3 4 5 and 2 1 3 4 5 from the top; Σd² = 2, so ρ = 1 - 6·2 / (5·24) = 0.9; other first tokens.
    Bonn: ranks 5 4 3 2 1 and 5 2½ 2½ 2½ 2½ from below; without their mean of 3 they are 2 1 0 -1 -2 and 2 -½ -½ -½ -½;
          products 4 - ½ + 0 + ½ + 1 = 5, squares 10 and 5, so ρ = 5 / √50; the same first token.
    Oslo: the negation ranks nothing, so neither ρ nor overlap is defined.
    Gold is spain, third in all three.
    """
    falling = (0.30, 0.15, 0.10, 0.04, 0.01, 0.40)
    negated = {
        "Rome": (0.15, 0.30, 0.10, 0.04, 0.01, 0.40),
        "Bonn": (0.20, 0.10, 0.10, 0.10, 0.10, 0.40),
        "Oslo": (0.10, 0.10, 0.10, 0.10, 0.10, 0.50),
    }
    asked = [(f"{city} is in [MASK].", falling) for city in negated]
    asked += [(f"{city} is not in [MASK].", chances) for city, chances in negated.items()]
    (words, *sentences) = mini_tokenizer.encode([" ".join([*ANSWERS, "the"]), *(query for query, _ in asked)])
    logits = {}
    for ids, (_, chances) in zip(sentences, asked, strict=True):
        own = logits[tuple(ids.tolist())] = np.full(mini.vocab_size, -np.inf, np.float32)
        own[words[1:-1]] = np.log(chances)
    given = facts(*(("P17", city, "spain", f"{city} is (not )in [MASK].") for city in negated))
    stage = lama_stage(mini, given, Ranked(LIST, tuple(ANSWERS), "five.txt"))
    items, summary = decided(stage, Given(logits.get))
    assert items["spearman"].to_list() == [pytest.approx(0.9), pytest.approx(5 / 50**0.5), None]
    assert items["overlap@1"].to_list() == [False, True, None]
    same = items.select("rank", "precision@1", "precision@5", "precision@10", "top1", "top2", "top3").unique()
    assert same.rows() == [(3, False, True, True, "france", "italy", "spain")]
    logprobs = items.select("top1_logprob", "top2_logprob", "top3_logprob", "gold_logprob").rows()
    np.testing.assert_allclose(logprobs, [np.log([*falling[:3], 0.1])] * 3, rtol=1e-6)
    assert items.select("negated_top1", "negated_top2", "negated_top3").row(0) == ("italy", "france", "spain")
    assert items["negated_top1_logprob"][0] == pytest.approx(np.log(0.3))
    counted = {(row["split"], row["metric"]): row["n"] for row in summary.to_dicts()}
    assert counted["all", "overlap@1"] == counted["N-1", "spearman"] == 2
    assert counted["all", "precision@5"] == 3


def test_p159_is_excluded_unless_asked_for_and_a_query_that_is_too_long_is_refused(mini):
    given = facts(("P159", "Lego", "london", "Lego is (not )in [MASK] ."), ("P36", "Oslo", "paris", "It is [MASK] ."))
    stage, whole = lama_stage(mini, given), lama_stage(mini, given, with_p159=True)
    assert (len(stage.experiment.items), stage.metadata["excluded"]) == (1, {SAME: 1})
    assert (len(whole.experiment.items), whole.metadata["excluded"]) == (2, {})
    assert whole.identity != stage.identity
    long = facts(("P1", "ice", "water", "Ice is [MASK] ."), ("P1", "fire", "water", "very " * 9_999 + "[MASK]."))
    with pytest.raises(InputError, match=r"^f:2: .*tokens"):
        lama_stage(mini, long).check(print)


def test_answers_that_are_several_tokens_or_not_ranked_do_not_count(mini):
    stage = lama_stage(mini, capitals("Ouagadougou", "paris", "rome"), Ranked(LIST, ("paris", "london"), "two.txt"))
    part = stage.decide(MaskedLM(mini), 0, None, lambda *_: None)
    assert (part.rows["gold"].to_list(), part.counts) == (["paris"], {SEVERAL: 1, NOT_RANKED: 1})


def test_of_a_causal_model_facts_whose_queries_end_in_the_answer_count(causal):
    exported = causal("gpt2")
    texts = {"smoke": "Jessica is (not )happy to [MASK] .", "dance": "John likes to (not )[MASK]."}
    texts |= {"Jessica": "[MASK] is (not )a dancer.", "sing": "Maria likes to (not )[MASK] and dance."}
    rows = [("P36", "Squad", *row) for row in texts.items()]
    stage = lama_stage(exported, facts(*rows))
    stage.check(lambda _: None)
    part = stage.decide(open_language_model(exported), 0, None, lambda *_: None)
    assert (part.rows["gold"].to_list(), part.counts) == (["smoke", "dance"], {NOT_READ: 2})
    with pytest.raises(InputError, match=rf"none of 2 facts counts \(2: {NOT_READ}\)"):
        lama_stage(exported, facts(*rows[2:])).check(lambda _: None)


def test_means_and_contrasts_of_hand_made_items():
    """A has overlaps 1 1 0, B has 0: ½ over facts, (⅔ + 0) / 2 = ⅓ over relations.

    Precision: 1 in all four, misprimed 0 in all four, of two relations: p = 2 / 2², and of three alike, Holm's is 1.
    """
    rows = [
        {"dataset": "TREx", "condition": condition, "item": str(i), "splits": f"all|{relation}", "cluster": relation}
        | {f"precision@{k}": condition == "original" for k in (1, 5, 10)}
        | ({"spearman": 1.0, "overlap@1": same} if condition == "original" else {})
        for condition in ("original", "misprimed-low")
        for i, (relation, same) in enumerate([("A", True), ("A", True), ("A", False), ("B", False)])
    ]
    own = Lama.summarise(pl.DataFrame(rows)).select("condition", "split", "metric", "value").rows()
    summary = {f"{condition} {split} {metric}": value for condition, split, metric, value in own}
    both = "original vs misprimed-low all"
    wanted = {"original all overlap@1": 0.5, "original all overlap@1-by-relation": 1 / 3, "original A overlap@1": 2 / 3}
    wanted |= {"original all precision@1": 1, "misprimed-low all precision@10": 0, f"{both} difference:precision@1": 1}
    wanted |= {f"{both} p:precision@1": 1 / 2, f"{both} p_holm:precision@1": 1}
    assert {key: summary[key] for key in wanted} == pytest.approx(wanted)
    assert "misprimed-low all spearman" not in summary
