"""Negated LAMA against a slow reference (PyTorch, scipy, fact by fact) and hand-made logits."""

import gc
import weakref
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.errors import InputError
from negengine.engine.inference.model import MaskedLM
from negengine.engine.probes.lama import probe as lama
from negengine.engine.probes.lama.facts import Fact, Facts
from negengine.engine.probes.targets import read_words, word_ids
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
        place=f"facts.jsonl:{line}",
    )


def facts(rows=ROWS):
    return Facts(tuple(fact(line, *row) for line, row in enumerate(rows, 1)), {})


class Watched:
    """A model that notes every sentence's logits, how many sentences each call has, and what is still alive then."""

    def __init__(self, model):
        self._model = model
        self.batch_size = model.batch_size
        self.logits_of = {}
        self.calls = []
        self.alive = []
        self._given = []

    def logits(self, ids, mask_position):
        gc.collect()
        self.alive.append(sum(array() is not None for array in self._given))
        self.calls.append(ids.shape)
        found = self._model.logits(ids, mask_position)
        self.logits_of |= {tuple(row): logits.copy() for row, logits in zip(ids.tolist(), found, strict=True)}
        self._given.append(weakref.ref(found))
        return found


@pytest.fixture(scope="module")
def pytorch():
    return AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()


@pytest.fixture(scope="module")
def model(mini):
    return MaskedLM(mini)


@pytest.fixture(scope="module")
def words(mini, mini_tokenizer):
    return word_ids(mini_tokenizer, mini.vocab_size)


@pytest.fixture(scope="module", params=["all", "words", "list"])
def finished(request, mini, model, words, mini_tokenizer, tmp_path_factory):
    """A whole run with each vocabulary: the tokens kept, the model watched, items, summary."""
    folder = tmp_path_factory.mktemp("lama")
    kept = {"all": None, "words": words}.get(request.param)
    if request.param == "list":
        answers = [row[3] for row in ROWS]
        text = "\n".join([*answers, "asia", "england", "the", "unfathomableword"])
        (folder / "list.txt").write_text(text, "utf-8")
        kept = read_words(mini_tokenizer, folder / "list.txt")
        assert len(kept) == len(set(answers)) + 3
    plan = lama.plan(mini, facts(), kept=kept, vocabulary=request.param)
    assert len(plan.facts) == len(ROWS)
    watched = Watched(model)
    summary = lama.run(plan, watched, folder / "run")
    return plan.kept.tolist(), watched, pl.read_parquet(folder / "run" / "items.parquet"), summary


# ---------------------------------------------------------------- the slow reference


def test_logits_are_those_of_pytorch(finished, pytorch):
    tokenizer, network = pytorch
    _, watched, items, _ = finished
    queries = {*items["query"], *items["negated_query"].drop_nulls()}
    assert len(queries) == len(watched.logits_of)
    for query in queries:
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
        assert row["top"] == [token.removeprefix("##") for token in tokenizer.convert_ids_to_tokens(order[:3])]
        assert row["top_logprob"] == pytest.approx([logprobs[i] for i in order[:3]], abs=1e-5)
        if row["negated_query"] is None:
            assert row["spearman"] is row["overlap@1"] is row["negated_top"] is None
            continue
        negated = kept_logprobs(row["negated_query"])
        wanted = stats.spearmanr([logprobs[i] for i in kept], [negated[i] for i in kept]).statistic
        assert row["spearman"] == pytest.approx(wanted, abs=1e-9)
        best = max(negated, key=negated.get)
        assert row["overlap@1"] == (best == order[0])
        assert row["negated_top_logprob"][0] == pytest.approx(negated[best], abs=1e-5)


def test_means_are_over_facts_and_over_relations(finished):
    _, _, items, summary = finished
    values = {tuple(row[:4]): (row[4], row[7]) for row in summary.iter_rows()}
    for corpus in ("GoogleRE", "TREx", "ConceptNet"):
        for metric in ("spearman", "overlap@1", "precision@5"):
            own = items.filter(pl.col("dataset") == corpus, pl.col("condition") == "original").drop_nulls(metric)
            relations = {}
            for relation, value in own.select("cluster", metric).iter_rows():
                relations.setdefault(relation, []).append(value)
            means = [np.mean(found) for found in relations.values()]
            assert values[corpus, "original", "all", metric] == (pytest.approx(own[metric].mean()), len(own))
            by_relation = values[corpus, "original", "all", f"{metric}-by-relation"]
            assert by_relation == (pytest.approx(np.mean(means)), len(means))
            for relation, found in relations.items():
                assert values[corpus, "original", relation, metric] == (pytest.approx(np.mean(found)), len(found))


def test_relations_of_trex_are_grouped_as_in_the_paper(finished):
    """P36 is 1-1; P103 and P30 are N-1."""
    n = {(row["split"], row["metric"]): row["n"] for row in finished[3].filter(dataset="TREx").to_dicts()}
    assert (n["1-1", "spearman"], n["N-1", "spearman"], n["N-1", "spearman-by-relation"]) == (2, 2, 2)
    assert ("N-M", "spearman") not in n


def test_only_a_fact_that_is_asked_both_ways_is_contrasted(finished):
    """Three of four facts of T-REx have a misprimed query."""
    rows = finished[3].filter(dataset="TREx", condition="original vs misprimed-high", metric="difference:precision@1")
    items = finished[2].filter(pl.col("dataset") == "TREx", pl.col("query").str.contains("Italy").not_())
    plain, primed = (
        items.filter(condition=condition)["precision@1"].mean() for condition in ("original", "misprimed-high")
    )
    assert rows.select("value", "n").rows() == [(pytest.approx(plain - primed), 3)]


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
        self.kept = np.sort(ids[1:-2])

    def batch_size(self, _length):
        return 2

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
    plan = lama.plan(mini, facts(rows), kept=scripted.kept, vocabulary="five")
    items = lama.score(plan, scripted, slice(0, 3))
    assert items["spearman"].to_list() == [pytest.approx(0.9), pytest.approx(5 / 50**0.5), None]
    assert items["overlap@1"].to_list() == [False, True, None]
    assert items["rank"].to_list() == [3, 3, 3]
    assert items.select("precision@1", "precision@5", "precision@10").unique().rows() == [(False, True, True)]
    assert items["top"].to_list() == [["france", "italy", "spain"]] * 3
    np.testing.assert_allclose(items["top_logprob"].to_list(), [np.log(falling[:3])] * 3, rtol=1e-6)
    np.testing.assert_allclose(items["gold_logprob"].to_list(), np.log([0.1] * 3), rtol=1e-6)
    assert items["negated_top"][0].to_list() == ["italy", "france", "spain"]
    summary = {(row["split"], row["metric"]): row for row in lama.summarise(items).to_dicts()}
    assert summary["all", "overlap@1"]["n"] == summary["N-1", "spearman"]["n"] == 2
    assert summary["all", "precision@5"]["n"] == 3


@given(
    st.integers(2, 12).flatmap(
        lambda m: st.lists(
            st.tuples(*[st.lists(st.integers(-3, 3), min_size=m, max_size=m)] * 2), min_size=1, max_size=4
        )
    )
)
def test_rank_correlation_is_scipys(pairs):
    first, second = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
    for one, other, found in zip(first, second, lama.spearman(first, second), strict=True):
        if len(set(one.tolist())) == 1 or len(set(other.tolist())) == 1:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-9)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=6, max_size=6), min_size=1, max_size=4), st.integers(1, 6))
def test_top_tokens_are_those_of_a_plain_sort_with_ties_by_id(rows, k):
    wanted = [sorted(range(6), key=lambda i, row=row: (-row[i], i))[:k] for row in rows]
    assert lama.top_tokens(np.array(rows, np.float32), k).tolist() == wanted


def test_means_and_contrasts_of_hand_made_items():
    """A has overlaps 1 1 0, B has 0: ½ over facts, (⅔ + 0) / 2 = ⅓ over relations.

    Precision: 1 in all four, misprimed 0 in all four, so McNemar's p = 2 / 2⁴ = ⅛; of three tests, one for each k,
    which are all alike here, so Holm's smallest is 3 · ⅛, and none may be below it.
    """
    base = {"dataset": "TREx", "condition": "original"}
    rows = [
        base | {"item": str(i), "splits": ["all", relation], "cluster": relation, "spearman": 1.0, "overlap@1": same}
        for i, (relation, same) in enumerate([("A", True), ("A", True), ("A", False), ("B", False)])
    ]
    primed = [row | {"condition": "misprimed-low", "spearman": None, "overlap@1": None} for row in rows]
    items = pl.DataFrame(
        [row | {f"precision@{k}": row["condition"] == "original" for k in (1, 5, 10)} for row in rows + primed]
    )
    rows = lama.summarise(items).to_dicts()
    summary = {(row["condition"], row["split"], row["metric"]): row["value"] for row in rows}
    assert summary["original", "all", "overlap@1"] == 0.5
    assert summary["original", "all", "overlap@1-by-relation"] == pytest.approx(1 / 3)
    assert summary["original", "A", "overlap@1"] == pytest.approx(2 / 3)
    assert summary["original", "all", "precision@1"] == 1
    assert summary["misprimed-low", "all", "precision@10"] == 0
    assert summary["original vs misprimed-low", "all", "difference:precision@1"] == 1
    assert summary["original vs misprimed-low", "all", "mcnemar_p:precision@1"] == pytest.approx(1 / 8)
    assert summary["original vs misprimed-low", "all", "mcnemar_p_holm:precision@1"] == pytest.approx(3 / 8)
    assert ("misprimed-low", "all", "spearman") not in summary


# ---------------------------------------------------------------- which facts count


def test_p159_is_left_out_unless_asked_for_and_this_is_said(mini):
    p159 = ("TREx", "P159", "Lego", "london", "The headquarter of Lego is in [MASK] .", None)
    given_facts = facts([*ROWS, p159])
    plan = lama.plan(mini, given_facts)
    assert len(plan.facts) == 12
    assert plan.dropped == {"P159, whose negation is the affirmative sentence itself": 1}
    whole = lama.plan(mini, given_facts, with_p159=True)
    assert (len(whole.facts), whole.dropped) == (13, {})
    assert plan.identity != whole.identity


def test_answers_that_are_several_tokens_or_not_kept_do_not_count(mini, mini_tokenizer):
    rows = [(*row[:3], gold, *row[4:]) for row, gold in zip(ROWS, ["Ouagadougou", "paris", "rome"], strict=False)]
    kept = mini_tokenizer.encode(["paris london"])[0][1:-1]
    plan = lama.plan(mini, facts(rows), kept=np.sort(kept), vocabulary="two")
    assert [fact.gold for fact in plan.facts] == ["paris"]
    assert plan.dropped == {"answer not one token": 1, "answer not in the vocabulary kept": 1}
    assert plan.gold.tolist() == [kept[0]]


def test_no_fact_that_counts_is_said_in_one_line(mini):
    rows = [(*ROWS[0][:3], "Ouagadougou", *ROWS[0][4:])]
    with pytest.raises(InputError, match=r"^none of 1 facts counts: 1 answer not one token$"):
        lama.plan(mini, facts(rows))


def test_a_query_that_is_too_long_is_refused_with_its_place_before_anything_is_run(mini):
    rows = [ROWS[0], ("SQuAD", "Squad", "Squad", "water", "very " * 9_999 + "[MASK].", None)]
    with pytest.raises(InputError, match=r"^facts\.jsonl:2: \d+ tokens, mini takes \d+: shorten the text$"):
        lama.plan(mini, facts(rows))


# ---------------------------------------------------------------- batches and run folders


def test_never_more_than_a_batch_of_logits(mini, model, monkeypatch):
    """Room for three sentences: no call asks for more, and of earlier calls' logits only the last's are still held."""
    monkeypatch.setattr(lama, "_LOGITS_AT_ONCE", 3 * mini.vocab_size + 1)
    rows = [("TREx", "P36", str(i), "paris", f"The capital of {i} is (not )[MASK] .", "Rome") for i in range(10)]
    plan = lama.plan(mini, facts(rows))
    watched = Watched(model)
    small = lama.score(plan, watched, slice(0, 10))
    assert sum(n for n, _ in watched.calls) == 10 * 4
    assert max(n for n, _ in watched.calls) == 3
    assert max(watched.alive) <= 1
    monkeypatch.undo()
    large = lama.score(plan, model, slice(0, 10))
    assert small["item"].equals(large["item"])
    np.testing.assert_allclose(small["spearman"].drop_nulls(), large["spearman"].drop_nulls(), atol=1e-6)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(lama, "_FACTS_PER_PART", 5)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in ("items.parquet", "summary.parquet")}


def test_an_interrupted_run_is_resumed_to_the_same_bytes(mini, model, tmp_path, interrupt, small_parts):
    plan = lama.plan(mini, facts())
    lama.run(plan, model, tmp_path / "whole")
    calls = interrupt(lama, "score", 2)
    with pytest.raises(KeyboardInterrupt):
        lama.run(plan, model, tmp_path / "resumed")
    lama.run(plan, model, tmp_path / "resumed")
    assert len(calls) == 3 + 1  # of three parts the second was begun twice
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")


def test_a_finished_run_asks_nothing_again(mini, model, tmp_path):
    plan = lama.plan(mini, facts(ROWS[:2]))
    summary = lama.run(plan, model, tmp_path / "run")
    assert lama.run(plan, None, tmp_path / "run").equals(summary)


@pytest.mark.parametrize(
    ("other", "named"),
    [({"rows": ROWS[:1]}, "data sha256"), ({"kept": [680, 1067, 2197], "vocabulary": "three"}, "vocabulary all")],
)
def test_a_folder_made_with_other_facts_or_vocabulary_is_refused(other, named, mini, model, tmp_path):
    lama.run(lama.plan(mini, facts(ROWS[1:3])), model, tmp_path / "run")
    kept = np.array(other["kept"], np.int32) if "kept" in other else None
    changed = lama.plan(mini, facts(other.get("rows", ROWS[1:3])), kept=kept, vocabulary=other.get("vocabulary", "all"))
    with pytest.raises(InputError, match=named):
        lama.run(changed, model, tmp_path / "run")


def test_the_summary_keeps_to_the_agreed_columns(finished):
    summary = finished[3]
    assert summary.columns == ["dataset", "condition", "split", "metric", "value", "low", "high", "n"]
    assert set(summary["dataset"]) == {"GoogleRE", "TREx", "ConceptNet", "SQuAD"}
    correlations = summary.filter(metric="spearman").drop_nulls("low")
    assert correlations.filter(pl.col("low") <= pl.col("value"), pl.col("value") <= pl.col("high")).equals(correlations)
