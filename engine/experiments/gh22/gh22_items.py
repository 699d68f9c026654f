"""Items of `gh22`: their summary, their sentences, and what `verify` counts and asks again.

Values of the summary are fractions; the split is PATTERN@RANK. The drop is the rate of 1P − that of 1N (section 2.4);
its test is McNemar's exact one. Pairs are the sampling units. `ungrammatical` follows a remark in section 2.1: a low
repetition rate can also come from ungrammatical predictions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from ...library.again import Draw, Question, Sample
from ...library.recount import Recount, holds, same_figures
from ...library.sentences import REPEATED
from ...text.pattern import (
    NAME,
    PROFESSION,
    PRONOUN,
    VERB,
    Pattern,
    PatternSet,
    Role,
    column,
    expected_verbs,
    sentence_texts,
)
from ..finished_run import item_once, ranks_of_repetitions
from ..summary import DIFFERENCE, Contrast, contrasts, frame, means, with_holm
from .gh22_patterns import Variant, load_variant

DATASET = "GH22"
_SPLIT = pl.format("{}@{}", "pattern", "rank")
USED = ("condition", "rank", "pattern", "pair", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
"""The columns of the items that `summarise` uses."""
_OWN = ("gender", "name", "profession", "pronoun", "act", "act1", "act2")
_FURTHER = ("precision", "repeated_any", "top1_is_verb", "act_is_verb")
_ITEM = ("condition", "pattern", "pair", "rank")
_CELL = ("condition", "split", "metric")
_ACT = ("pair", "rank")


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items, by condition and rank."""
    common: Mapping[str, Any] = {"dataset": pl.lit(DATASET), "item": "pair", "cluster": pl.lit(None, pl.String)}
    metrics: Mapping[str, Any] = {
        "repetition_rate": "repeated",
        "repetition_rate:any": pl.when(condition=str(Variant.COORDINATED)).then("repeated_any"),
        "ungrammatical": ~pl.col("top1_is_verb"),
    }
    sentences = items.select("condition", "rank", "pattern", splits=_SPLIT, **common, **metrics)
    acts = items.filter(condition=str(Variant.ORIGINAL), pattern=items["pattern"][0]).select(
        "condition", **common, splits=pl.format("ACT@{}", "rank"), act_not_a_verb=~pl.col("act_is_verb")
    )
    pairs = sentences.filter(pl.col("pattern").str.ends_with("P")).unique(("condition", "splits"), maintain_order=True)
    drops = [
        Contrast(DATASET, "repetition_rate", (condition, f"{name}@{rank}"), (condition, f"{name[:-1]}N@{rank}"))
        for condition, name, rank in pairs.select("condition", "pattern", "rank").iter_rows()
    ]
    found = frame([*means(sentences, [*metrics]), *contrasts(sentences, drops), *means(acts, ["act_not_a_verb"])])
    # `1P@50 vs 1N@50` is called `1@50`, and its difference the drop.
    drop = {f"{DIFFERENCE}:repetition_rate": "drop"}
    named = found.with_columns(pl.col("split").str.replace("P@.*(@.*)", "$1"), pl.col("metric").replace(drop))
    conditions = items["condition"].unique(maintain_order=True)
    order = pl.col("condition").cast(pl.Enum(conditions)), pl.col("split").str.extract("@(.*)").cast(pl.Int64)
    return with_holm(named.sort(order, maintain_order=True))


def sentence_rows(items: pl.LazyFrame, variants: Mapping[Variant, PatternSet], mask: str) -> pl.LazyFrame:
    """The sentences, pattern by pattern. `rank` is the ACT's rank here, `act_rank` that in the first sentence.

    One fails if the model repeats the ACT after a negative context, or does not after an affirmative one.
    """
    words = items.with_columns(pl.col("act").alias(column(VERB)))
    return pl.concat(
        [_sentences(words, variant, pattern, mask) for variant, set_ in variants.items() for pattern in set_.scored]
    )


def _sentences(items: pl.LazyFrame, variant: Variant, pattern: Pattern, mask: str) -> pl.LazyFrame:
    repeated = pl.col(REPEATED)
    return items.filter((pl.col("condition") == str(variant)) & (pl.col("pattern") == pattern.name)).select(
        item="pair",
        condition="condition",
        sentence=sentence_texts(pattern, mask),
        expected=expected_verbs(pattern),
        answer="top1",
        repeated=repeated,
        failed=repeated if pattern.role is Role.FORBIDDEN else ~repeated,
        rank="expected_rank",
        logprob="expected_logprob",
        answer_logprob="top1_logprob",
        pattern="pattern",
        act_rank="rank",
        **{name: name for name in (*_OWN, *_FURTHER)},
    )


def recounts(items: pl.DataFrame, summary: pl.DataFrame, acts: pl.DataFrame) -> Iterator[Recount]:
    """What must hold of the three files of a finished run."""
    yield item_once(items, _ITEM)
    words = [name for name in acts.columns if name in items.columns and name not in _ACT]
    yield holds(
        "ACTs are those of acts.parquet",
        items.join(acts, on=_ACT, how="left", suffix="_chosen"),
        pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_chosen")) for name in words),
        _ITEM,
    )
    is_act = (pl.col("expected_rank") == 1) & (pl.col("top1") == pl.col("act")) & pl.col("repeated_any")
    yield from ranks_of_repetitions(items, "ACT", is_act, _ITEM)
    verbs = items.group_by("top1").agg(pl.col("top1_is_verb").n_unique().alias("answers"))
    yield holds("a first choice is a verb everywhere or nowhere", verbs, pl.col("answers") == 1, ["top1"])
    yield _recounted_rates(items, summary)


def _recounted_rates(items: pl.DataFrame, summary: pl.DataFrame) -> Recount:
    several = pl.col("condition") == str(Variant.COORDINATED)
    shares = items.select(
        "condition",
        split=_SPLIT,
        **{
            "repetition_rate": pl.col("repeated").cast(pl.Float64),
            "repetition_rate:any": pl.when(several).then("repeated_any").cast(pl.Float64),
            "ungrammatical": (~pl.col("top1_is_verb")).cast(pl.Float64),
        },
    )
    each = shares.unpivot(index=_CELL[:2], variable_name="metric").drop_nulls("value")
    rates = each.group_by(_CELL).agg(pl.col("value").mean(), n=pl.len().cast(pl.Int64))
    sign = pl.when(pl.col("split").str.contains("P@")).then(1).otherwise(-1)
    sides = rates.filter(metric="repetition_rate").with_columns(
        pl.col("value") * sign, split=pl.col("split").str.replace("[PN]@", "@"), metric=pl.lit("drop")
    )
    drops = sides.group_by(_CELL).agg(pl.col("value").sum(), pl.col("n").first())
    found = summary.filter(pl.col("metric").is_in([*shares.columns[2:], "drop"]))
    counted = pl.concat([rates, drops])
    return same_figures("rates and drops of summary.parquet are those of the items", found, counted, _CELL)


def repetitions(draw: Draw, rows: pl.LazyFrame, acts: pl.DataFrame) -> Iterator[Question]:
    """Rows of `sentence_rows`. An ACT may be a piece of a word, so its token is that of acts.parquet."""
    tokens = {(pair, rank): act for pair, rank, act in acts.select("pair", "rank", "act_id").iter_rows()}
    for row in draw.rows(rows):
        name = f"pair {row['item']}, ACT {row['act_rank']} in {row['condition']} {row['pattern']}"
        yield replace(draw.question(row, ()), name=name, tokens=((tokens[row["item"], row["act_rank"]],),))


def chosen_acts(draw: Draw, acts: pl.DataFrame, sentence: str) -> Sample:
    """The ACTs that the model has chosen, with their ranks; none for another sentence than ours."""
    pattern = load_variant(Variant.ORIGINAL).selecting
    unranked = draw.tokenizer.unranked_ids(draw.exported.vocab_size)
    questions = [
        Question(
            name=f"pair {row['pair']}, ACT {row['rank']}",
            text=pattern.text(
                {slot: row[column(slot)] for slot in (NAME, PROFESSION, PRONOUN)}, draw.exported.mask_token
            ),
            tokenizer=draw.tokenizer,
            tokens=((row["act_id"],),),
            rank=row["rank"],
            logprob=row["act_logprob"],
            unranked=(unranked,),
        )
        for row in (draw.some(acts) if sentence == pattern.sentence else ())
    ]
    return Sample("ACTs", questions)
