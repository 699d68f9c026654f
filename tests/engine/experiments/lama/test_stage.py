"""Negated LAMA against a slow reference (PyTorch, scipy, fact by fact) and hand-made logits."""

import weakref
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from asked_stages import lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.ask import NOT_RANKED, NOT_READ, SEVERAL
from negengine.engine.experiments.items import ITEMS_FILE, SUMMARY_FILE
from negengine.engine.experiments.lama.facts import Fact, Facts
from negengine.engine.experiments.lama.lama import SAME
from negengine.engine.experiments.vocabulary import LIST, Ranked
from negengine.engine.inference.causal import open_language_model
from negengine.engine.inference.model import MaskedLM
from negengine.engine.runs.stage import FinishedParts
from scipy import stats
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[4] / "export" / "mini"
# Corpus, relation, subject, answer, query with what its negation has more in brackets, word before the misprimed one.
ROWS = [
    ("GoogleRE", "place_of_birth", "Anna", "london", "Anna was (not )born in [MASK] .", "Rome"),
    ("GoogleRE", "place_of_birth", "Paul", "paris", "Paul was (not )born in [MASK] .", "Oslo"),
    ("GoogleRE", "place_of_death", "Paul", "rome", "Paul was (not )buried in [MASK] .", "Spain"),
    ("TREx", "P36", "France", "paris", "The capital of France is (not )[MASK] .", "Rome"),
    ("TREx", "P36", "Italy", "rome", "The capital of Italy is (not )[MASK] .", None),
    ("TREx", "P103", "Goethe", "german", "Goethe's language is (not )[MASK] .", "Cat"),
    ("TREx", "P30", "Spain", "europe", "Spain is (not )located in [MASK] .", "Asia"),
    ("ConceptNet", "CapableOf", "birds", "fly", "Birds can (not )[MASK].", "Talk"),
    ("ConceptNet", "CapableOf", "dogs", "run", "Dogs can (not )[MASK] and bark.", None),
    ("ConceptNet", "IsA", "music", "art", "Music is (not )an [MASK].", "War"),
    ("ConceptNet", "IsA", "gold", "metal", "Gold is a [MASK].", "Blood"),
    ("SQuAD", "Squad", "Squad", "water", "Ice is (not )frozen [MASK].", "Fire"),
]


def fact(line, corpus, relation, subject, gold, text, prime):
    query = text.replace("(not )", "")
    return Fact(
        corpus,
        relation,
        subject,
        gold,
        query,
        negated=text.replace("(not )", "not ") if query != text else None,
        misprimed={kind: f"{prime}? {query}" for kind in ("high", "random") if prime},
        identifier="",
        location=f"facts.jsonl:{line}",
    )


def facts(rows=ROWS):
    return Facts(tuple(fact(line, *row) for line, row in enumerate(rows, 1)), {})


class Watched:
    """A model that notes every sentence's logits, how many each batch has, and how many older ones are alive then."""

    def __init__(self, model):
        self._model = model
        self.divide_together = model.divide_together
        self.logits_of = {}
        self.calls = []
        self.alive = []
        self._given = []

    def reduce_logits(self, batches, reduce):
        def noted(number, logits):
            self.alive.append(sum(array() is not None for array in self._given))
            for (ids, _), found in zip(batches[number], logits, strict=True):
                self.calls.append(ids.shape)
                self.logits_of |= {tuple(row): own.copy() for row, own in zip(ids.tolist(), found, strict=True)}
                self._given.append(weakref.ref(found))
            return reduce(number, logits)

        return self._model.reduce_logits(batches, noted)


@pytest.fixture(scope="module")
def pytorch(one_thread):
    return AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()


@pytest.fixture(scope="module")
def model(mini):
    return MaskedLM(mini)


@pytest.fixture(scope="module", params=["all", "words", "list"])
def finished(request, model):
    """A whole run with each vocabulary: the ranked tokens, the model watched, items, summary."""
    answers = [row[3] for row in ROWS]
    listed = Ranked(LIST, (*answers, "asia", "england", "the", "unfathomableword"), "list.txt")
    stage = lama_stage(model.exported, facts(), listed if request.param == "list" else Ranked(request.param))
    watched = Watched(model)
    items, summary = decided(stage, watched)
    return stage.ranked_ids.tolist(), watched, items, summary


def decided(stage, model):
    """What a stage publishes, and what it says is done."""
    done = []
    parts = [
        stage.decide(model, number, stage.prepare(number), lambda *n: done.append(n))
        for number in range(len(stage.parts))
    ]
    files = stage.publish(FinishedParts(Path(), pl.concat([part.rows for part in parts]).lazy(), {}, stage.metadata))
    assert sum(n for n, _ in done) == sum(stage.sizes)
    return files[ITEMS_FILE].collect(), files[SUMMARY_FILE]


# ---------------------------------------------------------------- the slow reference


@pytest.mark.parametrize("finished", ["all"], indirect=True)
def test_logits_are_those_of_pytorch(finished, pytorch):
    tokenizer, network = pytorch
    _, watched, items, _ = finished
    queries = {*items["query"], *items["negated_query"].drop_nulls()}
    assert len(queries) == len(watched.logits_of)
    for query in sorted(queries)[::2]:
        inputs = tokenizer(query, return_tensors="pt")
        ids = inputs["input_ids"][0].tolist()
        with torch.inference_mode():
            wanted = network(**inputs).logits[0, ids.index(tokenizer.mask_token_id)].numpy()
        np.testing.assert_allclose(watched.logits_of[tuple(ids)], wanted, atol=1e-3)


def test_items_are_those_of_a_slow_reference_on_the_same_logits(finished, pytorch):
    """LAMA's way: log-softmax over all tokens, then only the kept ones, in a plain sort."""
    tokenizer, _ = pytorch
    kept, watched, items, _ = finished

    def kept_logprobs(query):
        logits = torch.tensor(watched.logits_of[tuple(tokenizer(query)["input_ids"])], dtype=torch.float64)
        return {i: value for i, value in enumerate(logits.log_softmax(0).tolist()) if i in chosen}

    chosen = set(kept)
    assert len(items) == 12 + 10 + 10
    for row in items.iter_rows(named=True):
        logprobs = kept_logprobs(row["query"])
        order = sorted(logprobs, key=logprobs.get, reverse=True)
        gold = tokenizer.convert_tokens_to_ids(row["gold"])
        rank = 1 + order.index(gold)
        assert row["rank"] == rank
        assert [row[f"precision@{k}"] for k in (1, 5, 10)] == [rank <= 1, rank <= 5, rank <= 10]
        assert row["gold_logprob"] == pytest.approx(logprobs[gold], abs=1e-5)
        assert [row[f"top{i}"] for i in (1, 2, 3)] == tokenizer.convert_ids_to_tokens(order[:3])
        tops = [row[f"top{i}_logprob"] for i in (1, 2, 3)]
        assert tops == pytest.approx([logprobs[i] for i in order[:3]], abs=1e-5)
        if row["negated_query"] is None:
            assert row["spearman"] is row["overlap@1"] is row["negated_top1"] is None
            continue
        negated = kept_logprobs(row["negated_query"])
        wanted = stats.spearmanr([logprobs[i] for i in kept], [negated[i] for i in kept]).statistic
        assert row["spearman"] == pytest.approx(wanted, abs=1e-9)
        best = max(negated, key=negated.get)
        assert row["overlap@1"] == (best == order[0])
        assert row["negated_top1_logprob"] == pytest.approx(negated[best], abs=1e-5)


# ---------------------------------------------------------------- hand-made logits

ANSWERS = ["france", "italy", "spain", "germany", "russia"]


class Scripted:
    """A model whose probabilities are given, of ANSWERS and of a token that is not among them ("the")."""

    def __init__(self, tokenizer, vocab_size, probabilities):
        (ids,) = tokenizer.encode([" ".join([*ANSWERS, "the"])])
        self._logits = {}
        for query, chances in probabilities.items():
            logits = np.full(vocab_size, -np.inf, np.float32)
            logits[ids[1:-1]] = np.log(chances)
            self._logits[tuple(tokenizer.encode([query])[0].tolist())] = logits

    def divide_together(self, shapes):
        return [[slice(start, start + 2) for start in range(0, n, 2)] for n, _ in shapes]

    def reduce_logits(self, batches, reduce):
        for number, sentences in enumerate(batches):
            yield reduce(number, [self.logits(*some) for some in sentences])

    def logits(self, ids, _mask_position):
        return np.stack([self._logits[tuple(row)] for row in ids.tolist()])


def test_hand_made_logits(mini, mini_tokenizer):
    """Probabilities of france, italy, spain, germany, russia, and of `the`, which is not kept and never in the way.

    Rome: ranks 1 2 3 4 5 and 2 1 3 4 5 from the top; Σd² = 2, so ρ = 1 - 6·2 / (5·24) = 0.9; other first tokens.
    Bonn: ranks 5 4 3 2 1 and 5 2½ 2½ 2½ 2½ from below; without their mean of 3 they are 2 1 0 -1 -2 and 2 -½ -½ -½ -½;
          products 4 - ½ + 0 + ½ + 1 = 5, squares 10 and 5, so ρ = 5 / √50; the same first token.
    Oslo: the negation ranks nothing, so neither ρ nor overlap is defined.
    Gold is spain, third in all three.
    """
    falling = (0.30, 0.15, 0.10, 0.04, 0.01, 0.40)
    probabilities = {}
    for city, chances in (
        ("Rome", (0.15, 0.30, 0.10, 0.04, 0.01, 0.40)),
        ("Bonn", (0.20, 0.10, 0.10, 0.10, 0.10, 0.40)),
        ("Oslo", (0.10, 0.10, 0.10, 0.10, 0.10, 0.50)),
    ):
        probabilities |= {f"{city} is in [MASK].": falling, f"{city} is not in [MASK].": chances}
    cities = ("Rome", "Bonn", "Oslo")
    rows = [("TREx", "P17", city, "spain", f"{city} is (not )in [MASK].", None) for city in cities]
    scripted = Scripted(mini_tokenizer, mini.vocab_size, probabilities)
    stage = lama_stage(mini, facts(rows), Ranked(LIST, tuple(ANSWERS), "five.txt"))
    items, summary = decided(stage, scripted)
    assert items["spearman"].to_list() == [pytest.approx(0.9), pytest.approx(5 / 50**0.5), None]
    assert items["overlap@1"].to_list() == [False, True, None]
    assert items["rank"].to_list() == [3, 3, 3]
    assert items.select("precision@1", "precision@5", "precision@10").unique().rows() == [(False, True, True)]
    assert items.select("top1", "top2", "top3").unique().rows() == [("france", "italy", "spain")]
    logprobs = items.select("top1_logprob", "top2_logprob", "top3_logprob").rows()
    np.testing.assert_allclose(logprobs, [np.log(falling[:3])] * 3, rtol=1e-6)
    np.testing.assert_allclose(items["gold_logprob"].to_list(), np.log([0.1] * 3), rtol=1e-6)
    assert items.select("negated_top1", "negated_top2", "negated_top3").row(0) == ("italy", "france", "spain")
    rows = {(row["split"], row["metric"]): row for row in summary.to_dicts()}
    assert rows["all", "overlap@1"]["n"] == rows["N-1", "spearman"]["n"] == 2
    assert rows["all", "precision@5"]["n"] == 3


# ---------------------------------------------------------------- which facts count


def test_p159_is_excluded_unless_asked_for_and_a_query_that_is_too_long_is_refused(mini):
    p159 = ("TREx", "P159", "Lego", "london", "The headquarter of Lego is in [MASK] .", None)
    given = facts([*ROWS, p159])
    stage, whole = lama_stage(mini, given), lama_stage(mini, given, with_p159=True)
    assert (len(stage.experiment.items), stage.metadata["excluded"]) == (12, {SAME: 1})
    assert (len(whole.experiment.items), whole.metadata["excluded"]) == (13, {})
    assert whole.identity != stage.identity
    rows = [ROWS[0], ("SQuAD", "Squad", "Squad", "water", "very " * 9_999 + "[MASK].", None)]
    with pytest.raises(InputError, match=r"^facts\.jsonl:2: .*tokens"):
        lama_stage(mini, facts(rows)).check(print)


def test_answers_that_are_several_tokens_or_not_ranked_do_not_count(model):
    rows = [(*row[:3], gold, *row[4:]) for row, gold in zip(ROWS, ["Ouagadougou", "paris", "rome"], strict=False)]
    stage = lama_stage(model.exported, facts(rows), Ranked(LIST, ("paris", "london"), "two.txt"))
    part = stage.decide(model, 0, None, lambda _done, _sentences: None)
    assert part.rows["gold"].unique().to_list() == ["paris"]
    assert part.counts == {SEVERAL: 1, NOT_RANKED: 1}


# ---------------------------------------------------------------- batches and parts


def test_as_many_logits_at_once_as_asked_for(mini, model):
    """Room for three sentences: no batch has more, and one core holds the logits of one batch."""
    rows = [("TREx", "P36", str(i), "paris", f"The capital of {i} is (not )[MASK] .", "Rome") for i in range(10)]
    watched = Watched(MaskedLM(mini, threads=1))
    small, _ = decided(
        lama_stage(model.exported, facts(rows), logits_at_once=3 * model.exported.vocab_size + 1), watched
    )
    assert sum(n for n, _ in watched.calls) == 10 * 3
    assert max(n for n, _ in watched.calls) == 3
    assert max(watched.alive) == 0
    large, _ = decided(lama_stage(model.exported, facts(rows)), model)
    assert small["item"].equals(large["item"])
    np.testing.assert_allclose(small["spearman"].drop_nulls(), large["spearman"].drop_nulls(), atol=1e-6)


# ---------------------------------------------------------------- a causal model

QUERIES = {
    "smoke": "Jessica is happy to [MASK] .",
    "dance": "John likes to [MASK].",
    "Jessica": "[MASK] is a dancer.",
    "sing": "Maria likes to [MASK] and dance.",
}


def queried(queries):
    made = [
        Fact("TREx", "P36", "Squad", gold, query, negated=query.replace("is ", "is not "), misprimed={},
             identifier="", location=f"facts.jsonl:{line}")
        for line, (gold, query) in enumerate(queries.items(), 1)
    ]  # fmt: skip
    return Facts(tuple(made), {})


def test_facts_whose_queries_end_in_the_answer_count(causal):
    exported = causal("gpt2")
    stage = lama_stage(exported, queried(QUERIES))
    stage.check(lambda _: None)
    part = stage.decide(open_language_model(exported), 0, None, lambda *_: None)
    assert part.rows["gold"].to_list() == ["smoke", "dance"]
    assert part.counts == {NOT_READ: 2}
    with pytest.raises(InputError, match=rf"none of 2 facts counts \(2: {NOT_READ}\)"):
        lama_stage(exported, queried(dict(list(QUERIES.items())[2:]))).check(lambda _: None)
