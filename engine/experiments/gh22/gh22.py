"""The test of Gubelmann and Handschuh (2022), `negengine gh22`: Table 2 of the paper with our rates, drops, curves."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.choices import Precision
from ...basics.errors import InputError
from ...basics.numerals import percent
from ...inference.audit import audit_sentences, audit_summary
from ...inference.exported import ExportedModel
from ...library.again import SHARING, Draw, Question, Sample
from ...library.model import Model
from ...library.options import RunOptions, execution, run_folder, shard_of
from ...library.recount import Recount, holds
from ...library.run import Run, ShardRun, open_results
from ...library.sentences import REPEATED
from ...requests.summary import HOLM
from ...runs.loop import Execution, run_stage
from ...runs.record import mask_token
from ...runs.results import finished_stage, read_frame
from ...runs.shard import Shard
from ...text.bundled import lexicon_path
from ...text.lexicon import load_lexicon
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
from ...views import Column, Figure, Section, Table
from ...views.charts import Lines
from ..experiment import LEXICON, PAIRS, SEED, Experiment, Option
from ..finished_run import SummaryRun, item_once, ranks_of_repetitions
from ..published import published
from ..view import POINTS, Chart, Values, View
from .acts import ACTS_FILE, IS_TEXT, RANKS, Acts, check_ranks
from .gh22_patterns import Variant, load_variant
from .repetitions import ACTS_PER_PART, COLUMNS, DATASET, NOT_A_TEXT, PATTERNS_KEY, SPLIT, Repetitions

_ITEM = ("condition", "pattern", "pair", "rank")
_ACT = ("pair", "rank")
_OWN = ("gender", "name", "profession", "pronoun", "act", "act1", "act2", "precision")
_VERDICTS = ("repeated_any", "top1_is_verb", "act_is_verb")
_PARTS = pl.col("split").str.split("@").list  # PATTERN@RANK, or NUMBER@RANK
_BY_RANK = {"pattern": _PARTS.first(), "rank": _PARTS.last()}
_COLUMNS = {**_BY_RANK, "metric": pl.format("{}@{}", "metric", _PARTS.last())}  # a column for each metric and rank


@dataclass(frozen=True, eq=False)
class Gh22Run(SummaryRun):
    """A finished run of the test; `Acts.decide` makes the columns of `acts`, `Repetitions.decide` those of `items`."""

    stage: ClassVar[str] = Repetitions.name
    clusters: ClassVar[str] = "[NAME, PROF] pairs"

    @cached_property
    def acts(self) -> pl.DataFrame:
        return read_frame(self.folder, finished_stage(self.folder, Acts.name), ACTS_FILE)

    @cached_property
    def patterns(self) -> dict[Variant, PatternSet]:
        sets = self.record.metadata["pattern sets"]
        return {Variant(variant): PatternSet.from_json(content) for variant, content in sets.items()}

    def methods(self, test: str) -> str:
        identity = self.record.identity
        first, (variant, patterns) = min(identity["ranks"]), next(iter(self.patterns.items()))
        numbers = sorted({pattern.name[:-1] for pattern in patterns.scored})
        drops = "; ".join(
            f"pattern {number}: {self.told(variant, f'{number}@{first}', 'drop', digits=3)}" for number in numbers
        )
        return (
            f"We replicated the test of {test} with {identity['pairs']:,} pairs of a name and a profession. The ACTs "
            f"are the model's own predictions at ranks {', '.join(map(str, identity['ranks']))}. Variants: "
            f"{', '.join(self.patterns)}. The drop of the repetition rate from the affirmative to the negative "
            f"pattern, {variant}, at rank {first}, with 95 % intervals: {drops}."
        )

    def tables(self) -> list[Table]:
        ranks = sorted(self.summary.select(_PARTS.last().unique()).to_series(), key=int)
        both = ((rates(name, patterns, ranks), drops(name, ranks)) for name, patterns in self.patterns.items())
        return [view.table(self) for views in both for view in views]

    @property
    def acts_told(self) -> list[str]:
        """How many ACTs are not verbs, by the original patterns; and how many are not texts, if there are any."""
        found, told = self.summary.with_columns(**_BY_RANK), list[str]()
        shares = [
            f"{percent(value)} % at rank {rank}"
            for value, rank in found.filter(metric="act_not_a_verb").select("value", "rank").iter_rows()
        ]
        if shares:
            told.append(f"ACTs that are not verbs of the lexicon: {', '.join(shares)}.")
        lost = found.filter(metric=NOT_A_TEXT).with_columns(lost=(pl.col("value") * pl.col("n")).round().cast(pl.Int64))
        for (condition,), own in lost.group_by("condition", maintain_order=True):
            each = ", ".join(
                f"{lost:,} of {n:,} at rank {rank}" for lost, n, rank in own.select("lost", "n", "rank").iter_rows()
            )
            told.append(
                f"{condition}: ACTs that are not texts of their own, such as a byte, were not asked: {each}. "
                "No other figure counts them."
            )
        return told

    def remarks(self) -> list[str]:
        return [*self.acts_told, *audit_sentences(audit_summary(self.record.counts))]

    @property
    def conditions(self) -> dict[str, Any]:
        """The sentence for the ACTs and the patterns, as pairs are joined by words. A variant not run is ours."""
        identity = self.record.identity
        bundled = {PATTERNS_KEY.format(variant): load_variant(variant).sha256 for variant in Variant}
        return {"sentence": identity["sentence"], **{key: identity.get(key, sha) for key, sha in bundled.items()}}

    def outcomes(self) -> pl.DataFrame:
        return self.items.select(
            dataset=pl.lit(DATASET),
            condition="condition",
            split=SPLIT,
            metric=pl.lit("repetition_rate"),
            item=pl.concat_str("name", "profession", separator="|"),
            value=pl.col("repeated").cast(pl.Float64),
            name="name",
            gender="gender",
            profession="profession",
            verb="act",
        )

    @property
    def minimal_pairs(self) -> tuple[str, Sequence[str]]:
        return "item", ("condition", "pattern")

    def sentence_rows(self) -> pl.LazyFrame:
        """The sentences, pattern by pattern. `rank` is the ACT's rank here, `act_rank` that in the first sentence.

        One fails if the model repeats the ACT after a negative context, or does not after an affirmative one.
        """
        words = self.items.lazy().with_columns(pl.col("act").alias(column(VERB)))
        mask, repeated = mask_token(self.record.metadata, self.folder), pl.col(REPEATED)

        def of_pattern(variant: Variant, pattern: Pattern) -> pl.LazyFrame:
            return words.filter(condition=str(variant), pattern=pattern.name).select(
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
                **{name: name for name in (*_OWN, *_VERDICTS)},
            )

        return pl.concat([of_pattern(variant, own) for variant, set_ in self.patterns.items() for own in set_.scored])

    def again(self, draw: Draw) -> Iterator[Sample]:
        """The token of an ACT is that of acts.parquet, as an ACT can be a piece of a word."""
        tokens = {(pair, rank): act for pair, rank, act in self.acts.select(*_ACT, "act_id").iter_rows()}
        rows = self.sentence_rows()

        def question(row: Mapping[str, Any]) -> Question:
            return replace(
                draw.question(row, ()),
                name=f"pair {row['item']}, ACT {row['act_rank']} in {row['condition']} {row['pattern']}",
                tokens=((tokens[row["item"], row["act_rank"]],),),
            )

        yield Sample("items", [question(row) for row in draw.rows(rows)])
        patterns = ((str(variant), own) for variant, set_ in self.patterns.items() for own in set_.scored)
        unlike = [
            row
            for condition, own in patterns
            for row in draw.sharing(rows.filter(condition=condition, pattern=own.name), own, COLUMNS)
        ]
        if unlike:
            yield Sample(SHARING, [question(row) for row in unlike])
        pattern = load_variant(Variant.ORIGINAL).selecting
        unranked = draw.tokenizer.unranked_ids(draw.exported.vocab_size)
        is_ours, mask = self.record.identity["sentence"] == pattern.sentence, draw.exported.mask_token

        def chosen(row: Mapping[str, Any]) -> Question:
            return Question(
                name=f"pair {row['pair']}, ACT {row['rank']}",
                text=pattern.text({slot: row[column(slot)] for slot in (NAME, PROFESSION, PRONOUN)}, mask),
                tokenizer=draw.tokenizer,
                tokens=((row["act_id"],),),
                rank=row["rank"],
                logprob=row["act_logprob"],
                unranked=(unranked,),
            )

        acts = self.acts if is_ours else self.acts.clear()
        yield Sample("ACTs", [chosen(row) for row in draw.some(acts)])
        if unlike := draw.sharing(acts.lazy(), pattern):
            yield Sample(f"ACTs: {SHARING}", [chosen(row) for row in unlike])

    def recounts(self) -> Iterator[Recount]:
        items, acts = self.items, self.acts
        yield item_once(items, _ITEM)
        words = [name for name in acts.columns if name in items.columns and name not in _ACT]
        yield holds(
            "ACTs are those of acts.parquet",
            items.join(acts, on=_ACT, how="left", suffix="_chosen"),
            pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_chosen")) for name in words),
            _ITEM,
        )
        key = ("condition", *_ACT)
        asked = items.select(*key, asked=True).unique()
        chosen = acts.join(pl.DataFrame({"condition": map(str, self.patterns)}), how="cross")
        chosen = chosen.join(asked, on=key, how="left").with_columns(pl.col("asked").fill_null(value=False))
        yield holds(
            "the ACTs that are texts were asked, and no others",
            chosen.filter(pl.col("condition") != str(Variant.COORDINATED)),  # its context holds further tokens
            pl.col("asked") == pl.col(IS_TEXT),
            key,
        )
        is_act = (pl.col("expected_rank") == 1) & (pl.col("top1") == pl.col("act")) & pl.col("repeated_any")
        yield from ranks_of_repetitions(items, "ACT", is_act, _ITEM)
        verbs = items.group_by("top1").agg(pl.col("top1_is_verb").n_unique().alias("answers"))
        yield holds("a first choice is a verb everywhere or nowhere", verbs, pl.col("answers") == 1, ["top1"])


def rates(variant: Variant, patterns: PatternSet, ranks: list[str]) -> View:
    """Repetition rates of one variant in the layout of Table 2; aux and adv: whether the target has that word."""
    words = published("gh22")["columns"]
    rows = [
        {"pattern": pattern.name, "number": pattern.name[:-1], "polarity": pattern.name[-1],
         **{key: word in pattern.target.split() for key, word in words.items()}}
        for pattern in patterns.scored
    ]  # fmt: skip
    each = (
        Values(f"rank {rank}", f"repetition_rate@{rank}", beside=f"ungrammatical@{rank}", paper=f"paper, rank {rank}")
        for rank in ranks
    )
    return View(
        f"GH22, {variant}: {{model}}. Repetition of the ACT (in brackets: top-1 is not a verb), %",
        ("pattern",),
        [Column("n°", "number"), Column("pol.", "polarity"), *(Column(word, word) for word in words), *each],
        where=pl.col("condition") == str(variant),
        also=_COLUMNS,
        rows=pl.DataFrame(rows),
        section="number",
    )


def drops(variant: Variant, ranks: list[str]) -> View:
    """The drops P − N of one variant with their 95 % intervals, and p adjusted with Holm's method."""
    each = (
        Values(f"rank {rank}", f"drop@{rank}", interval=True, p=f"{HOLM}:repetition_rate@{rank}", style=POINTS)
        for rank in ranks
    )
    return View(
        f"GH22, {variant}: drop P − N with 95 % interval, and p (Holm)",
        ("pattern",),
        [Column("n°", "pattern"), *each],
        where=pl.col("condition") == str(variant),
        also=_COLUMNS,
        test="McNemar's exact test; [NAME, PROF] pairs are independent",
    )


def _drops_figure(run: Gh22Run, variant: Variant, table: Table) -> Figure:
    chart = Chart(
        f"drops-{variant}",
        "drop",
        "drop (percentage points)",
        f"Patterns “{variant}”: repetition rate of the affirmative sentence minus that of its negation.",
        where=pl.col("condition") == str(variant),
        also=_BY_RANK,
        label=pl.format("{}P − {}N, rank {}", "pattern", "pattern", "rank"),
        panel=None,
    )
    return chart.figure(run, table)


def _rates_figure(run: Gh22Run, variant: Variant, table: Table) -> Figure:
    own = run.summary.filter(condition=str(variant), metric="repetition_rate").with_columns(**_BY_RANK)
    number, polarity = pl.format("patterns {}", pl.col("pattern").str.head(-1)), pl.col("pattern").str.tail(1)
    named = polarity.replace({"P": "affirmative (P)", "N": "negated (N)"})
    data = own.select("rank", pl.col("value", "low", "high") * 100, number=number, polarity=named)
    printed = run.paper.figures.filter(condition=str(variant)).with_columns(**_BY_RANK).select(
        "rank", value=100 * pl.col("published"), number=number, polarity=pl.format("paper, {}", polarity)
    )  # fmt: skip
    lines = Lines(
        pl.concat([data, printed], how="diagonal"), x="rank", y="value", low="low", high="high", series="polarity",
        panel="number", x_title="rank of the ACT", y_title="repetition (%)", domain=(0, 100),
    )  # fmt: skip
    alt = f"{variant}: lines of the repetition rate by the rank of the ACT, for affirmative and negated sentences."
    caption = f"Patterns “{variant}”: repetition rate by the rank of the ACT."
    return Figure(f"rates-{variant}", lines, table, alt, caption, wide=True)


def _numbers(text: str) -> list[int]:
    try:
        return [int(rank) for rank in text.split(",")]
    except ValueError:
        raise InputError(f"--ranks {text}: give numbers with commas between, such as 1,50,100,200") from None


@dataclass(frozen=True, eq=False)
class Gh22(Experiment):
    """Replicate the test of Gubelmann & Handschuh (2022), with ACTs that the model chooses itself."""

    name = "gh22"
    title = "Gubelmann and Handschuh (2022), replicated"
    asks = (
        "The model fills a sentence with words of its own, and is asked for them again. Does it repeat them "
        "less often once a sentence is negated?"
    )
    references = "negengine.engine.experiments.gh22:references.toml"
    example = "negengine gh22 mini --pairs 100"
    results = Gh22Run
    stages = (Acts, Repetitions)

    pairs: Annotated[int | None, PAIRS] = None
    ranks: Annotated[
        Sequence[int],
        Option(
            "Ranks of the ACTs among the model's own predictions.",
            metavar="N,N,...",
            kind=str,
            shown=",".join(map(str, RANKS)),
            read=_numbers,
        ),
    ] = RANKS
    variant: Annotated[
        str | Sequence[str], Option("Pattern set to run (default: all); may be repeated.", kind=list[Variant])
    ] = ()
    lexicon: Annotated[str | Path | None, LEXICON] = None
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranks(self.ranks)

    @cached_property
    def variants(self) -> dict[Variant, PatternSet]:
        return {Variant(word): load_variant(Variant(word)) for word in self.variant or Variant}

    def stage(self, exported: ExportedModel) -> Acts:
        words, sentence = load_lexicon(lexicon_path(self.lexicon)), load_variant(Variant.ORIGINAL).selecting
        return Acts.plan(exported, words, sentence, ranks=self.ranks, pairs=self.pairs, seed=self.seed)

    def run(self, model: Model, options: RunOptions) -> Run | ShardRun:
        folder, shard = run_folder(model, options, Repetitions.name), shard_of(options)
        run_both(self.stage(model.exported), self.variants, folder, execution(model, options))
        return open_results(Gh22Run, folder, model, shard)

    @staticmethod
    def sections(run: Gh22Run) -> list[Section]:
        adjusted = run.summary.filter(pl.col("metric").str.starts_with(f"{HOLM}:"))["value"]
        n, clear = run.items.select("name", "profession").n_unique(), (adjusted < 0.05).sum()
        asked = f"{run.model_name} was asked for its own words (ACTs) again, in {n:,} pairs of a name and a profession."
        said = f"The affirmative and the negated sentence differ in {clear} of {len(adjusted)} comparisons"
        shown = run.tables()
        lowered = [_drops_figure(run, *own) for own in zip(run.patterns, shown[1::2], strict=True)]
        repeated = [_rates_figure(run, *own) for own in zip(run.patterns, shown[::2], strict=True)]
        note = "Rank is that of the ACT among the model's own predictions for the first sentence."
        first = [f"{said} (p < 0.05, adjusted with Holm's method).", asked]
        return [
            Section("Does a negation lower the repetition?", first, lowered),
            Section("How often is the ACT repeated?", run.acts_told, repeated, notes=[note]),
        ]


gh22 = Gh22.function()


def run_both(
    acts: Acts,
    variants: Mapping[Variant, PatternSet],
    folder: Path,
    work: Execution,
    *,
    acts_per_part: int = ACTS_PER_PART,
) -> None:
    """Run both stages, or their unfinished parts. A shard has all ACTs, and its share of the repetitions."""
    # ACTs are ranks, so the reference model chooses them in every precision.
    exactly = replace(work.options, precision=Precision.FP32)
    run_stage(acts, folder, replace(work, options=exactly, shard=Shard()))
    chosen = read_frame(folder, finished_stage(folder, Acts.name), ACTS_FILE)
    second = Repetitions(acts.exported, acts, chosen, variants, acts_per_part)
    run_stage(second, folder, replace(work, started=time.monotonic()))
