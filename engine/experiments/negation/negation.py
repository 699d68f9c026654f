"""The Self-Contained Negation Test (Kletz, Amsili and Candito 2023): which triplets are selected, how they are scored.

`grid`: the candidates [NAME, PROF, verb]. `select` (section 3.2): those whose verb the model repeats where nothing is
negated. `score` (3.3): is it still repeated in all patterns? `rates`: how often. `reading` (3.5): what that means.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Unpack

from ...inference.exported import ExportedModel
from ...library.model import Model, ModelLike, open_model
from ...library.options import AllOptions, RunOptions, divided, execution, folder_of, run_folder, shard_of
from ...library.run import ShardRun, model_of, open_results, refuse_other_model
from ...runs.loop import run_stage
from ...text.bundled import LEXICONS, PATTERNS
from ...text.pattern_files import Language, load_language
from ..experiment import LEXICON, Experiment, Option
from ..plan import Plan
from .negation_runs import ScoresRun, SelectionRun, read_selected
from .negation_views import scored, selected
from .score import Scoring
from .select import Selection, Settings

TITLE, REFERENCES = "Self-Contained Negation Test", "negengine.engine.experiments.negation:references.toml"
_SPEEDS = (100, 1_000, 10_000)  # sentences a second: a laptop, a server, a GPU


@dataclass(frozen=True)
class Select(Settings, Experiment):
    """Find the triplets [NAME, PROF, verb] whose verb the model repeats."""

    name = "select"
    title = TITLE
    asks = "Which verbs does the model repeat where nothing is negated?"
    references = REFERENCES
    example = "negengine select mini --pairs 60"
    is_main = True
    reads = "language"
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

    @cached_property
    def language(self) -> Language:
        return load_language(self.patterns, self.lexicon)

    def stage(self, exported: ExportedModel) -> Selection:
        return Selection.plan(exported, self.language.lexicon, self.language.patterns, self)

    def plan(self, model: Model, options: RunOptions) -> Plan:
        stage, shard = self.stage(model.exported), shard_of(options)
        stage.check(lambda _: None)
        verbs, most = stage.verbs, min(self.max_verbs, stage.verbs.n)
        numbers = shard.parts(len(verbs.parts))
        pairs = sum(len(verbs.parts[number]) for number in numbers)  # of this run
        # A candidate needs one sentence at least, and one for each token at most.
        fewest, tokens = pairs * (most if self.lazy else verbs.n), pairs * int(verbs.words.counts.sum())
        sentences = {"sentences, at least": fewest, "sentences, at most": tokens}
        selected = len(verbs.pairs) * most
        work: dict[str, int | float] = {
            f"verbs that are {'several tokens' if stage.has_several else 'one token'}": verbs.n,
            "pairs": len(verbs.pairs),
            "candidates": verbs.size,
            "parts of this run" if shard.is_whole else f"parts of shard {shard}": len(numbers),
            **({"sentences": tokens} if fewest == tokens else sentences),
            **{f"minutes at {speed:,} sentences a second": pairs * verbs.n / speed / 60 for speed in _SPEEDS},
            "selected triplets, at most": selected,
            # Of the patterns, the selection answers the selecting one.
            "sentences of the scoring, at most": selected * len(stage.patterns.scored),
        }
        return Plan(stage.exported.name, run_folder(model, options), work, stage.notes)

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
