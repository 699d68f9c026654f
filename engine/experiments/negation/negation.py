"""The Self-Contained Negation Test (Kletz, Amsili and Candito 2023): which triplets are selected, how they are scored.

`grid`: the candidates [NAME, PROF, verb]. `select` (section 3.2): those whose verb the model repeats where nothing is
negated. `score` (3.3): is it still repeated in all patterns? `rates`: how often. `reading` (3.5): what that means.

Before a selection, a plan says what it would do, and how wide its intervals would be. Correlations between two triplets
of one pair, or verb, are the largest of the bundled model (600 pairs, four patterns); beside that of pairs stands 0.3,
for a model that looks at names and professions.
"""

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Annotated, Any, Unpack

import polars as pl

from ...inference.exported import ExportedModel
from ...library.model import Model, ModelLike, open_model
from ...library.options import AllOptions, RunOptions, divided, execution, folder_of, run_folder, shard_of
from ...library.run import ShardRun, model_of, open_results, refuse_other_model
from ...runs.loop import run_stage
from ...runs.shard import Shard
from ...statistics.intervals import UPPER, normal_quantile
from ...statistics.power import POWER, clusters_needed
from ...text.bundled import LEXICONS, PATTERNS
from ...text.pattern_files import load_language
from ...views import Column, Table
from ..experiment import LEXICON, Experiment, Option
from ..plan import Plan
from .grid import Verbs
from .negation_runs import ScoresRun, SelectionRun, read_selected
from .negation_views import scored, selected
from .score import Scoring
from .select import Selection, Settings

TITLE, REFERENCES = "Self-Contained Negation Test", "negengine.engine.experiments.negation:references.toml"
PAIR_CORRELATION, VERB_CORRELATION = 0.006, 0.95
LARGE_PAIR_CORRELATION = 0.3
WIDTHS = (10.0, 5.0, 2.0, 1.0)  # percentage points
_RATE = 0.5  # the rate whose interval is widest
_SPEEDS = (100, 1_000, 10_000)  # sentences a second: a laptop, a server, a GPU


@dataclass(frozen=True, eq=False)
class SelectionPlan(Plan):
    """A selection that was planned, not run."""

    widths: pl.DataFrame  # width, pairs, pairs_large_correlation, width_two_way; widths in percentage points

    def tables(self) -> list[Table]:
        return [
            *super().tables(),
            Table(
                "How many pairs a 95 % interval needs",
                self.widths,
                [
                    Column("width of the interval", "width", decimals=0, unit="percentage points"),
                    Column("pairs, if pairs differ little", "pairs"),
                    Column("pairs, if they differ much", "pairs_large_correlation"),
                    Column("width with verbs as clusters too", "width_two_way", decimals=1, unit="percentage points"),
                ],
                notes=[
                    "pair: a name and a profession; width: from end to end, of a rate of 50 %, which is the widest",
                    f"if pairs differ little: correlation within a pair {PAIR_CORRELATION}, as of the bundled model",
                    f"if they differ much: {LARGE_PAIR_CORRELATION}, as of a model that looks at names and professions",
                    "width with verbs as clusters too: for the first number of pairs",
                    f"correlation within a verb: {VERB_CORRELATION}, as of the bundled model",
                ],
            ),
        ]

    def document(self) -> dict[str, Any]:
        return {**super().document(), "widths": self.widths.to_dicts()}


def plan_of(stage: Selection, folder: Path, shard: Shard) -> SelectionPlan:
    """What a selection would do; no model is opened."""
    single = stage.verbs
    # Of the patterns, the selection answers the selecting one.
    pairs, verbs, patterns = len(single.pairs), single.n, len(stage.patterns.scored)
    most = min(stage.settings.max_verbs, verbs)
    parts, own = _of_shard(single, shard)
    work: dict[str, int | float] = {
        f"verbs that are {'several tokens' if stage.has_several else 'one token'}": verbs,
        "pairs": pairs,
        "candidates": single.size,
        "parts of this run" if shard.is_whole else f"parts of shard {shard}": parts,
    }
    # A candidate needs one sentence at least, and one for each token at most.
    fewest, tokens = own * (most if stage.settings.lazy else verbs), own * int(single.words.counts.sum())
    work |= {"sentences": tokens} if fewest == tokens else {"sentences, at least": fewest, "sentences, at most": tokens}
    work |= {f"minutes at {speed:,} sentences a second": own * verbs / speed / 60 for speed in _SPEEDS}
    work |= {"selected triplets, at most": pairs * most, "sentences of the scoring, at most": pairs * most * patterns}
    # With a power of 80 % (5 %, two-sided); the two rates are taken as independent, which is careful: they are rates of
    # the same triplets. The formula is in `statistics.power`.
    quantiles = normal_quantile(UPPER) + normal_quantile(POWER)
    if smallest := quantiles * sqrt(2 * two_way_variance(pairs, most, verbs)):
        work["smallest difference that is found (percentage points)"] = 100 * smallest
    needed, large = (
        [clusters_needed(width / 100, _RATE, most, correlation) for width in WIDTHS]
        for correlation in (PAIR_CORRELATION, LARGE_PAIR_CORRELATION)
    )
    both = [100 * 2 * normal_quantile(UPPER) * sqrt(two_way_variance(own, most, verbs)) for own in needed]
    widths = {"width": WIDTHS, "pairs": needed, "pairs_large_correlation": large, "width_two_way": both}
    return SelectionPlan(stage.exported.name, folder, work, stage.notes, pl.DataFrame(widths))


def _of_shard(verbs: Verbs, shard: Shard) -> tuple[int, int]:
    numbers = shard.parts(len(verbs.parts))
    return len(numbers), sum(len(verbs.parts[number]) for number in numbers)


def two_way_variance(
    pairs: int, size: int, verbs: int, by_pair: float = PAIR_CORRELATION, by_verb: float = VERB_CORRELATION
) -> float:
    """The variance of a rate of 50 % with pairs and verbs as clusters; each pair has `size` random verbs.

    Of n = pairs · size triplets, two share a pair with probability 1 / pairs, a verb with (1 - size / verbs) / n + 1 /
    verbs, each with itself included:

        p (1 - p) · [(1 - a - b) / n + a / pairs + b · ((1 - size / verbs) / n + 1 / verbs)]
    """
    n = pairs * size
    same_verb = (1 - size / verbs) / n + 1 / verbs
    alone = max(0.0, 1 - by_pair - by_verb) / n
    return _RATE * (1 - _RATE) * (alone + by_pair / pairs + by_verb * same_verb)


@dataclass(frozen=True)
class Select(Settings, Experiment):
    """Find the triplets [NAME, PROF, verb] whose verb the model repeats."""

    name = "select"
    title = TITLE
    asks = "Which verbs does the model repeat where nothing is negated?"
    references = REFERENCES
    example = "negengine select mini --pairs 60"
    is_main = True
    mixes = True
    results = SelectionRun
    stages = (Selection,)

    lexicon: Annotated[str | Path | None, LEXICON] = None
    patterns: Annotated[
        str | Path | None,
        Option(
            "A bundled pattern set such as italian, or your own TOML file (default: the paper's).",
            metavar="NAME|FILE",
            kind=str,
            is_file=True,
            words=(*PATTERNS, *LEXICONS),
        ),
    ] = None

    def stage(self, exported: ExportedModel) -> Selection:
        language = load_language(self.patterns, self.lexicon)
        return Selection.plan(exported, language.lexicon, language.patterns, self)

    def plan(self, model: Model, options: RunOptions) -> SelectionPlan:
        """What a run would do, and how many pairs an interval needs."""
        stage = self.stage(model.exported)
        stage.check(lambda _: None)
        return plan_of(stage, run_folder(model, options), shard_of(options))

    sections = staticmethod(selected)


@dataclass(frozen=True)
class Score(Experiment):
    """Score the selected triplets in all patterns: rates, drops, intervals."""

    name = "score"
    title = TITLE
    asks = (
        "The first sentence says what somebody likes to do, the second one what the same person is happy to "
        "do. Does the model know that a negation in one of them rules out the same verb?"
    )
    references = REFERENCES
    example = "negengine score runs/mini"
    mixes = True
    goes_on_from = "select"
    results = ScoresRun
    stages = (Scoring,)

    def call(  # type: ignore[override]  # it goes on from a run
        self, run: SelectionRun | str | Path, *, model: ModelLike | None = None, **options: Unpack[AllOptions]
    ) -> ScoresRun | ShardRun:
        """The scores go into the selection's folder by default, those of a shard into one beside it."""
        opening, shared = divided(options)
        shard = shard_of(shared)
        source = run.folder if isinstance(run, SelectionRun) else Path(run)
        selected = read_selected(source)
        given = model or (run.model if isinstance(run, SelectionRun) and not opening else None)
        if isinstance(given, Model):
            opened = open_model(given, **opening)
            refuse_other_model(source, selected.record, opened.exported)
        else:
            exported = model_of(source, selected.record, None if given is None else str(given))
            opened = open_model(exported.folder, **opening)
        beside = source.resolve().with_name(f"{source.resolve().name}-score")
        folder = folder_of(shared, source if shard.is_whole else beside)
        stage = Scoring.plan(selected, opened.exported)
        run_stage(stage, folder, execution(opened, shared), earlier={Selection.name: source})
        return open_results(ScoresRun, folder, opened, shard)

    sections = staticmethod(scored)


select, score = Select.function(), Score.function()
