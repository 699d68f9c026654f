"""What a report shows of single sentences: minimal pairs and failures, from the columns of `Run.sentence_rows`."""

from functools import lru_cache

import polars as pl

from ...basics.errors import InputError
from ...basics.printable import counted
from ...experiments.registry import experiment
from ...inference.again import drawn
from ...library.run import Run
from ...library.sentences import CORRECT, FAILED, FIRST, REPEATED, TEXTS
from ...views import Column, Section, Table
from ...views.to_html import Terms
from .chosen_sentences import YES_NO

SAMPLE = WORST = 100  # sentences of each kind
_TITLE = "What do single sentences look like?"
_KEYS = ("item", "condition")
_HEADINGS = {
    "why": "shown as",
    **{name: name for name in ("condition", "sentence", "premise", "hypothesis", "expected", "answer")},
    **{name: name for name in ("good", "bad", "difference")},
    REPEATED: "repeated",
    FIRST: "first choice",
    CORRECT: "correct",
    FAILED: "wrong",
    "rank": "rank",
    "logprob": "log-probability",
}
_MOST_PAIRS = 12


@lru_cache(maxsize=1)  # asked for twice, one run after the other
def minimal_pairs(run: Run) -> pl.DataFrame:
    """A sentence of each condition, with `wanted` (what a model that understands says), and in `share` of `n` is right.

    Those of one typical item where it has them all; empty if no answer is judged.
    """
    try:
        rows = run.sentence_rows()
    except InputError:
        return pl.DataFrame()
    names = rows.collect_schema().names()
    hit = next((name for name in (REPEATED, FIRST, CORRECT) if name in names), None)
    item, places = run.minimal_pairs[0], [name for name in run.minimal_pairs[1] if name in names]
    if hit is None:
        return pl.DataFrame()
    judged = rows.select(item, *places, hit, FAILED).collect(engine="streaming")
    judged = judged.with_columns(
        pl.when(pl.col(FAILED).count() > 0).then(pl.col(FAILED).count()).otherwise(pl.len()).over(places).alias("n"),
        share=(1 - pl.col(FAILED).mean()).over(places),
        typical=pl.col(hit) == (pl.col(hit).mean().over(places) > 0.5),
    )
    each = judged.select(places).unique(maintain_order=True).with_columns(conditions=pl.len())
    if len(each) > _MOST_PAIRS:  # such as those of several data sets: the first one has examples
        each = each.filter(pl.col(places[0]) == pl.col(places[0]).first()).head(_MOST_PAIRS)
    usual = judged.sort(pl.col("typical").sum().over(item), descending=True, maintain_order=True)
    usual = usual.unique(places, keep="first", maintain_order=True).select(item, *places, "n", "share")
    texts = rows.filter(pl.col(item).is_in(usual[item].implode())).collect().unique([item, *places], keep="first")
    found = each.join(usual, on=places, how="left", maintain_order="left", nulls_equal=True)
    found = found.join(texts, on=[item, *places], how="left", maintain_order="left", nulls_equal=True)
    again = " again" if hit == REPEATED else ""
    return found.with_columns(
        wanted=pl.when(pl.col(hit) != pl.col(FAILED)).then(pl.format(f"“{{}}”{again}", "expected"))
        .when(pl.col(hit) == pl.col(FAILED)).then(pl.format("a word other than “{}”", "expected"))
        .when(pl.lit(hit == REPEATED)).then(pl.format("“{}” again, or another word", "expected")),
        right=~pl.col(FAILED),
    )  # fmt: skip


def asked(run: Run) -> list[Section]:
    """The question of the experiment with an example, which begins the chapter of a run."""
    own, pairs = experiment(run.stage), minimal_pairs(run)
    if pairs.is_empty() or own is None:
        return []
    places = [name for name in run.minimal_pairs[1] if name in pairs.columns and pairs[name].n_unique() > 1]
    named = run.named_for_people(pairs.columns)
    columns = [
        *(Column(named[name], name) for name in places),
        *(Column(_HEADINGS[name], name) for name in TEXTS if name in pairs.columns),
        Column("target" if own.name == "probe" else "expected", "expected"),
        Column("a model that understands says", "wanted"),
        Column(f"{run.model_name} says", "answer"),
        *([Column("log-probability", "logprob", decimals=2)] if pairs["answer"].null_count() == len(pairs) else []),
        Column("right", "right"),
        Column("share right", "share", decimals=1, scale=100, unit="%"),
        Column("n", "n"),
    ]
    judged = pairs["share"].null_count() < len(pairs)
    unasked = {"expected"} if judged else {"n"}  # what a model that understands says names the expected word
    known = [one for one in columns if one.value not in unasked and pairs[one.value or ""].null_count() < len(pairs)]
    notes = (
        ["share right: of n judged sentences of this condition; where none is judged, n counts all"] if judged else []
    )
    if len(pairs) < (count := pairs["conditions"][0]):
        notes.append(f"the first {len(pairs)} of {count:,} conditions")
    table = Table("An example of each condition", pairs, known, notes=notes)
    return [Section("What is asked, and what does the model answer?", [own.asks] if own.asks else [], tables=[table])]


def terms(run: Run) -> Terms:
    """What the short names of a run's conditions, such as CpTn, stand for."""
    said: dict[str, str] = {}
    for row in minimal_pairs(run).iter_rows(named=True) if run.short_names else ():
        text = " ".join(str(row[name]) for name in TEXTS if name in row)
        wanted = f" A model that understands says {row['wanted']}." if row["wanted"] else ""
        said[row[run.minimal_pairs[1][-1]]] = text + wanted
    return dict.fromkeys(run.short_names, said)


def examples(run: Run) -> list[Section]:
    """The section. Where sentences cannot be built, it says why."""
    try:
        rows, pairs = run.sentence_rows(), run.pair_rows()
        if pairs is None:
            kinds = {"worst failure": _worst(rows), "random sample": run.sentences(sample=SAMPLE)}
        else:  # the worst failures are those with the most negative difference
            worst = pairs.filter(FAILED).sort("difference", maintain_order=True).head(WORST)
            kinds = {"worst failure": worst.collect(), "random sample": drawn(pairs, SAMPLE, 0).collect()}
        both = pl.concat([own.select(pl.lit(why).alias("why"), pl.all()) for why, own in kinds.items()])
        shown = both.unique([name for name in both.columns if name != "why"], keep="first", maintain_order=True)
    except InputError as error:
        return [Section(_TITLE, [f"There are no sentences: {error}."])]
    own, named = run.own_columns, run.named_for_people(shown.columns)
    headings = {"why": _HEADINGS["why"], **{name: named[name] for name in own if name in named}, **_HEADINGS}
    headings |= {name: title for name, title in run.renamed.items() if name in headings}
    headings["expected"] = "target" if FIRST in shown.columns else "expected"
    same = [name for name in run.renamed if name in shown.columns and shown[name].n_unique() == 1]
    columns = [
        Column(heading, named[name], decimals=2 if shown[name].dtype.is_float() else None, truths=YES_NO)
        for name, heading in headings.items()
        if name in shown.columns and shown[name].null_count() < len(shown) and name not in same
    ]
    listing = Table("Sentences and the model's answers", shown.rename(named), columns)
    n = int((shown["why"] == "worst failure").sum())
    what = "sentence" if pairs is None else "pair"
    first, others = f"{n:,} of the worst failures", counted(len(shown) - n, f"{what} that was", f"{what}s that were")
    said = f"{first} and {others}" if n and n < len(shown) else others
    told = f"Below are {first}." if n == len(shown) else f"Below are {said} drawn at random."
    return [Section(_TITLE, [told], listing=listing, notes=[_note(run, shown)])]


def _worst(rows: pl.LazyFrame) -> pl.DataFrame:
    """The failures that are furthest from right, as many of each condition; they are found without building text."""
    names = rows.collect_schema().names()
    # A word that is said although it should not be is the worse, the more probable it is.
    said = [name for name in (REPEATED, FIRST) if name in names]
    failures = rows.filter(pl.col(FAILED)).select(*_KEYS, "rank", "logprob", *said).collect()
    towards = pl.when(*said).then(-1).otherwise(1) if said else pl.lit(1)
    logprob, rank = pl.col("logprob").cast(pl.Float64), pl.col("rank").cast(pl.Int64)
    badness = [towards * logprob, -towards * rank, *map(pl.col, _KEYS)]
    kinds = ["condition", *said]
    each = max(1, WORST // max(1, failures.n_unique(kinds)))
    by_condition = failures.sort(*badness, nulls_last=True).group_by(kinds, maintain_order=True)
    chosen = by_condition.head(each).select(_KEYS)
    found = rows.filter(pl.col("item").is_in(chosen["item"].unique().implode())).collect()
    once = found.unique(_KEYS, keep="first", maintain_order=True)
    return chosen.join(once, on=_KEYS, maintain_order="left").select(names)


def _note(run: Run, shown: pl.DataFrame) -> str:
    if shown[FAILED].null_count() == len(shown):
        hint = f": to change that, {run.how_to_judge}" if run.how_to_judge else ""
        return f"No answer is called right or wrong{hint}."
    if run.pair_rows() is not None:
        return "The worst failures are those whose bad sentence is the more probable one by the largest difference."
    if REPEATED in shown.columns:
        return (
            "An answer is wrong if the verb is repeated where the negation forbids it. Where the verb stays natural, "
            "another word is not wrong. The worst repetitions are the most probable ones."
        )
    if FIRST in shown.columns:
        return (
            "An answer is wrong if its target is wanted and is not the first choice, or is unwanted and is. The worst "
            "failures are the least probable wanted targets and the most probable unwanted ones."
        )
    return "The worst failures are those whose expected answer has the lowest probability or rank."
