"""`ng.gh22`: the test of Gubelmann & Handschuh (2022) as a library function, and its results."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.choices import Precision
from ...basics.errors import InputError
from ...inference.audit import audit_sentences, audit_summary
from ...inference.exported import ExportedModel
from ...library.again import Draw, Sample
from ...library.model import Model
from ...library.options import RunOptions, execution, run_folder, shard_of
from ...library.recount import Recount
from ...library.run import Run, ShardRun, open_results
from ...runs.loop import Execution, run_stage
from ...runs.record import mask_token
from ...runs.results import finished_stage, read_frame
from ...runs.shard import Shard
from ...text.bundled import lexicon_path
from ...text.lexicon import load_lexicon
from ...text.pattern import PatternSet
from ...views import Table
from ..experiment import LEXICON, PAIRS, SEED, Experiment, Option
from ..finished_run import SummaryRun
from .acts import ACTS_FILE, RANKS, Acts, check_ranks
from .gh22_items import DATASET, chosen_acts, recounts, repetitions, sentence_rows
from .gh22_patterns import Variant, load_variant
from .gh22_views import acts_sentence
from .gh22_views import sections as report_sections
from .gh22_views import tables as report_tables
from .repetitions import ACTS_PER_PART, Repetitions, patterns_key


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
        return report_tables(self)

    def remarks(self) -> list[str]:
        said = acts_sentence(self.summary)
        return [*([said] if said else []), *audit_sentences(audit_summary(self.record.counts))]

    @property
    def conditions(self) -> dict[str, Any]:
        """The sentence for the ACTs and the patterns, as pairs are joined by words. A variant not run is ours."""
        identity = self.record.identity
        bundled = {patterns_key(variant): load_variant(variant).sha256 for variant in Variant}
        return {"sentence": identity["sentence"], **{key: identity.get(key, sha) for key, sha in bundled.items()}}

    def outcomes(self) -> pl.DataFrame:
        return self.items.select(
            dataset=pl.lit(DATASET),
            condition="condition",
            split=pl.format("{}@{}", "pattern", "rank"),
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
        return sentence_rows(self.items.lazy(), self.patterns, mask_token(self.record.metadata, self.folder))

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield Sample("items", list(repetitions(draw, self.sentence_rows(), self.acts)))
        yield chosen_acts(draw, self.acts, self.record.identity["sentence"])

    def recounts(self) -> Iterator[Recount]:
        return recounts(self.items, self.summary, self.acts)


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
    def variants(self) -> tuple[Variant, ...]:
        return tuple(Variant(word) for word in self.variant or Variant)

    def stage(self, exported: ExportedModel) -> Acts:
        words, sentence = load_lexicon(lexicon_path(self.lexicon)), load_variant(Variant.ORIGINAL).selecting
        return Acts.plan(exported, words, sentence, ranks=self.ranks, pairs=self.pairs, seed=self.seed)

    def run(self, model: Model, options: RunOptions) -> Run | ShardRun:
        folder, shard = run_folder(model, options, Repetitions.name), shard_of(options)
        variants = {kind: load_variant(kind) for kind in self.variants}
        run_both(self.stage(model.exported), variants, folder, execution(model, options))
        return open_results(Gh22Run, folder, model, shard)

    sections = staticmethod(report_sections)


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
    second = replace(work, started=time.monotonic())
    run_stage(Repetitions.plan(acts, chosen, variants, acts_per_part=acts_per_part), folder, second)
