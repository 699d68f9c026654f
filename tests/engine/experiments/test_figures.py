"""The figures of every experiment against plain counts: on its small run, with answers drawn by chance."""

from collections import Counter, defaultdict
from itertools import pairwise, product
from math import exp, inf
from operator import mul

import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.registry import experiment
from negengine.engine.runs.part import PartFiles
from negengine.engine.runs.stage import FinishedParts

from .conftest import EVERY


@pytest.mark.parametrize("name", EVERY)
def test_each_request_is_there_once_and_none_is_more_likely_than_certain(name, made):
    items = made(name).items
    told = set(items.columns)
    keys = [*{"dataset", "condition", "item", "role", "candidate", "row", "line", "text", "word"} & told]
    assert not items.select(keys).is_duplicated().any()
    for likely in {"logprob", "expected_logprob", "top1_logprob"} & told:
        assert items.select((pl.col(likely) <= 1e-4).all()).item()
    if name == "cues":
        assert items.select(pl.col("cues").list.len() == pl.col("kinds").list.len()).to_series().all()


def with_other_answers(rows, seed):
    """Requests with answers drawn by chance, so that figures differ from each other; what was not answered stays so."""
    random, n = np.random.default_rng(seed), len(rows)
    rank = random.integers(1, 12, n)
    drawn = {"rank": rank, "first": rank == 1, "label": random.choice(["entailment", "not_entailment"], n)}
    drawn |= {name: -random.integers(1, 9, n) / 8 for name in ("logprob", "spearman")}
    drawn["logprob"] -= random.choice([0, 5e-5], n)  # what differs by rounding is a tie
    drawn |= {"top1": random.choice(["be", "pan"], n)}
    there = {name: pl.Series(own, dtype=rows.schema[name]) for name, own in drawn.items() if name in rows.columns}
    there |= {"spearman": there["spearman"].set(pl.Series(rank < 3), None)} if "spearman" in there else {}
    return rows.with_columns(pl.when(pl.col(name).is_not_null()).then(own).alias(name) for name, own in there.items())


def mean(values):
    known = [float(own) for own in values if own is not None]
    return sum(known) / len(known)


def ahead(scores):
    """By how much the right candidate is ahead of the best other one, from (is right, score); None: one is unknown."""
    if any(score is None for _, score in scores):
        return None
    return next(own for right, own in scores if right) - max(own for right, own in scores if not right)


def of_candidates(rows):
    """Each score of candidates behind a context: ahead by more than rounding, or a tie."""
    candidates = [row for row in rows if row["role"] != "alone"]
    alone = {row["candidate"]: row for row in rows if row["role"] == "alone"}
    total, by_token, by_byte = ([(row["right"], row["logprob"] / (row[unit] if unit else 1)) for row in candidates]
                                for unit in ("", "tokens", "bytes"))  # fmt: skip
    fewest = {unit: min(row[unit] for row in candidates) for unit in ("tokens", "bytes")}
    found = {"accuracy": ahead(total) > 1e-4, "ties": abs(ahead(total)) <= 1e-4}
    found |= {"accuracy_per_token": ahead(by_token) > 1e-4 / fewest["tokens"]}
    if "candidate" in rows[0]:
        same = {i: alone[i]["logprob"] for i in alone for row in candidates
                if (row["candidate"], row["tokens"]) == (i, alone[i]["tokens"])}  # fmt: skip
        gains = [(row["right"], row["logprob"] - same[row["candidate"]] if row["candidate"] in same else None)
                 for row in candidates]  # fmt: skip
        found |= {"accuracy_pmi": None if ahead(gains) is None else ahead(gains) > 2e-4}
        found |= {"accuracy_per_byte": ahead(by_byte) > 1e-4 / fewest["bytes"]}
    return found


def judged(name, rows, told):
    """The metrics of an item by plain rules, from its requests and their answers."""
    first, *others = rows
    if name == "diagnostics":
        expected, asked = ([row for row in rows if row[key]] for key in ("is_expected", "role"))
        outside = {key: any(row["tokens"] is None for row in own) if own else None
                   for key, own in (("accuracy", expected), ("sensitivity", asked))}  # fmt: skip
        found = {f"outside:{key}": own for key, own in outside.items()}
        for k in (1, 5):
            found[f"accuracy@{k}"] = any((row["rank"] or 99) <= k for row in expected) if expected else None
        if not asked or outside["sensitivity"]:
            return found | dict.fromkeys(("sensitivity", "sensitivity>0.01"), False if asked else None)
        of = {row["role"]: exp(row["logprob"]) for row in asked}
        gain = of.pop("good") - max(of.values())
        return found | {"sensitivity": gain > 0, "sensitivity>0.01": gain > 0.01}
    if first["why"]:
        return dict.fromkeys(experiment(name).metrics)
    if name == "lama":
        overlap = None if first["spearman"] is None else first["top1"] == others[0]["top1"]
        return {"overlap@1": overlap, **{f"precision@{k}": first["rank"] <= k for k in (1, 5, 10)}}
    if name == "gh22":
        return {"repetition_rate": first["first"], "ungrammatical": first["top1"] not in told["verbs"]}
    if name == "nli":
        return {"accuracy": (first["gold"] == "entailment") == (first["label"] == "entailment")}
    if name == "probe":
        wanted = first["is_wanted"]
        return {"is_top1": first["first"], "correct": None if wanted is None else first["first"] == wanted}
    return of_candidates(rows)


def groups(items, key, metric):
    """The known values by what some items share."""
    found = defaultdict(list)
    for item in items:
        if item[metric] is not None:
            found[item[key]].append(item[metric])
    return found


OTHER_FIGURES = {  # those that are not means of a column of the items
    "chance": lambda own, _: mean(1 / sum(i["item"] == j["item"] and not j["role"] for j in own)
                                  for i in own if i["accuracy"] is not None),
    "majority": lambda own, _: max(Counter(item["expected"] for item in own).values()) / len(own),
    "negation_share": lambda own, _: mean(item["negation"] for item in own),
    "accuracy_drop": lambda own, before: mean(i["accuracy"] for i in before) - mean(i["accuracy"] for i in own),
    "relative_drop": lambda own, before: 1 - mean(i["accuracy"] for i in own) / mean(i["accuracy"] for i in before),
    "act_not_a_verb": lambda own, _: mean(not item["act_is_verb"] for item in own),
}  # fmt: skip
OTHERS = {
    "lama": {f"{name}-by-relation" for name in ("spearman", "overlap@1", "precision@1", "precision@5", "precision@10")},
    "diagnostics": {"sd:accuracy@1", "sd:accuracy@5", "outside:accuracy", "outside:sensitivity"},
    "gh22": {"act_not_a_verb", "ungrammatical"},
    "nli": {"majority", "label_share:entailment", "label_share:not_entailment", "truncated", "negation_share"}
    | {f"{name}_drop{base}" for name in ("accuracy", "relative") for base in ("", "_from_negation")},
    "choice": {"chance"},
    "probe": {"preferred"},
}
SIDES = {  # condition and split of both sides of each difference
    "lama": {"original all − misprimed-low all"},
    "diagnostics": {
        *(f"original all − {name} all" for name in ("truncated", "-Obj", "-Sub", "-ObjSub")),
        *(f"original all − {name} draw-1" for name in ("shuffled", "shuffled-truncated")),
        *(f"original affirmative{kind} − original negative{kind}" for kind in ("", "-licensed", "-unlicensed")),
    },
    "gh22": {f"original {number}P@{rank} − original {number}N@{rank}" for number in "1234" for rank in (1, 50)},
    "nli": {"new Tneg-H − new T-Hneg", "new Tneg-H − new Tneg-Hneg", "new T-Hneg − new Tneg-Hneg"},
    "probe": {
        *(f"{target} affirmative − {target} negated" for target in ("target", "other")),
        *(f"target {split} − other {split}" for split in ("all", "affirmative", "negated")),
    },
}


# Groups that share no pair, and pairs with several rows in a group.
OTHER_PAIRS = {
    "probe without items": {"pair": "item", "cluster": pl.lit(None, pl.String)},
    "probe of two items": {"pair": pl.when(pl.col("row") <= 3).then(pl.lit("1")).otherwise(pl.lit("2"))},
}


def other_figure(metric, own, of, cell):
    """Such a figure of some items by a plain count."""
    if metric.startswith("sd:"):
        return np.std([mean(draw) for draw in groups(own, "draw", metric[3:]).values()])
    if metric.endswith("-by-relation"):
        return mean(map(mean, groups(own, "cluster", metric.removesuffix("-by-relation")).values()))
    if metric.startswith("label_share:"):
        return mean(item["gold"] == metric.partition(":")[2] for item in own)
    if metric.startswith("act_"):
        rank = int(cell[2].partition("@")[2])
        own = [item for cells in of.values() for item in cells if item["at_rank"] == rank]
    base, _, negation = metric.partition("_from_")
    before = of[cell[0], "original", *(("negation", "split") if negation else ("all", None))]
    return OTHER_FIGURES[base](own, before)


def difference(row, first, second, by):
    """Its value, its number of pairs and its p by all sign flips of clusters; of groups that share nothing the first.

    Several rows of a pair on one side count by their mean.
    """
    metric = "logprob" if row["metric"] == "preferred" else row["metric"]
    sides, clusters = [groups(own, by, metric) for own in (first, second)], {own[by]: own["cluster"] for own in first}
    both = [key for key in sides[0] if key in sides[1]]
    if not both:
        one, other = (mean(value for values in side.values() for value in values) for side in sides)
        return one - other, row["n"], None
    each = [(clusters[key] or key, mean(sides[0][key]), mean(sides[1][key])) for key in both]
    if row["metric"] == "preferred":
        return mean(one > other for _, one, other in each), len(both), None
    sums = defaultdict(float)
    for cluster, one, other in each:
        sums[cluster] += one - other
    known = [own for own in sums.values() if own]
    flipped = [
        abs(sum(map(mul, signs, known))) >= abs(sum(known)) - 1e-9 for signs in product((1, -1), repeat=len(known))
    ]
    return mean(one - other for _, one, other in each), len(both), mean(flipped)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [*(name for name in EVERY if name != "cues"), *OTHER_PAIRS])
def test_a_plain_count_of_the_items_gives_the_summary(name, seed, made, tmp_path):
    """Metrics of items; means over the items of a split, its other figures, and differences of two, with their p."""
    pairs, name = OTHER_PAIRS.get(name, {}), name.partition(" ")[0]
    run = made(name)
    rows = pl.concat(PartFiles(run.folder, name, number).frame() for number in range(run.record.parts))
    rows = rows.with_columns(**pairs)
    parts = FinishedParts(tmp_path, with_other_answers(rows, seed).lazy(), {}, run.record.metadata)
    files, of, sides = experiment(name).publish(parts), defaultdict(list), set()
    items = files["items.parquet"].lazy().collect()
    for own in items.partition_by("dataset", "condition", "item", *{"pattern"} & {*items.columns}):
        for metric, value in judged(name, own.to_dicts(), run.record.metadata).items():
            assert own[metric].drop_nulls().to_list() == ([] if value is None else [value]), (metric, own)
    for item in items.to_dicts():
        columns = item["columns"] or [None, *["split"] * len(item["splits"])]
        for split, column in zip(item["splits"], columns, strict=False):
            of[item["dataset"], item["condition"], split, column].append(item)
    for row in files["summary.parquet"].to_dicts():
        cell, other = ((row["dataset"], *(row[f"{side}{key}"] for key in ("condition", "split", "column")))
                       for side in ("", "other_"))  # fmt: skip
        if row["other_split"] is not None:
            sides.add(f"{row['condition']} {row['split']} − {row['other_condition']} {row['other_split']}")
            by = "item" if name == "probe" and cell[1] != other[1] else "pair"
            value, n, p = difference(row, of[cell], of[other], by)
            assert (row["value"], row["n"]) == (pytest.approx(value), n)
            assert row["p"] == (p if p is None else pytest.approx(p))
        elif of[cell] and row["metric"] in of[cell][0]:
            assert row["value"] == pytest.approx(mean(item[row["metric"]] for item in of[cell])), row
        else:
            assert row["value"] == pytest.approx(other_figure(row["metric"], of[cell], of, cell)), row
    assert set(files["summary.parquet"]["metric"]) == {*run.metrics, *OTHERS.get(name, ())}
    assert sides == SIDES.get(name, set())


def ends_of(metric):
    """What a figure of a metric can be, from the least to the most."""
    known = {"spearman": (-1, 1), "perplexity": (1, inf)}
    known |= dict.fromkeys(("logprob", "log_likelihood", "per_token", "per_word", "per_character"), (-inf, 0))
    signed = {"accuracy_drop": (-1, 1), "relative_drop": (-inf, 1)}
    return known.get(metric.partition("-by-")[0]) or signed.get(metric.partition("_from_")[0], (0, 1))


@pytest.mark.parametrize("name", EVERY)
def test_no_interval_of_a_summary_leaves_what_its_quantity_can_be(name, made):
    rows = made(name).summary.drop_nulls("value").filter(pl.col("value").is_not_nan())
    assert name == "cues" or rows["low"].count()
    for row in rows.to_dicts():
        low, high = ends_of(row["metric"])
        if row["other_split"] is not None:
            low, high = low - high, high - low
        ends = [own for own in (row["low"], row["high"]) if own is not None]
        assert len(ends) in {0, 2}
        known = [low, *ends[:1], row["value"], *ends[1:], high]
        assert all(one <= other + 1e-9 for one, other in pairwise(known)), row
