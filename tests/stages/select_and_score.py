"""Runs of select and score, mostly with fake models: the plans, and how they are executed."""

import json
from pathlib import Path
from typing import Any

import polars as pl
from fake_models import FakeScoring, FakeSelection
from negengine.engine.basics.choices import Precision, VerbConvention
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.negation_runs import read_selected
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.cpu import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern_files import load_patterns

SINGLE = ("smoke", "dance", "sing", "swim", "walk")
SEVERAL = ("beware", "crackle", "rustle", "pant", "abdicate", "acetify", "alkalize", "ameliorate", "agglomerate")
BOTH_KINDS = Lexicon(
    names=("Jessica", "Maria", "John", "Peter"),
    genders=("f", "f", "m", "m"),
    professions=("a dancer", "an architect", "a doctor"),
    verbs=(*SINGLE[:3], *SEVERAL, *SINGLE[3:]),
)
_PLANS: dict[Any, Selection] = {}
PUBLISHERS = {"select": Selection.publish, "score": Scoring.publish}


def execute(stage, folder, *, executor=None, shard=None, earlier=None, precision=Precision.FP32, **options) -> Path:
    opened = Opening(precision=precision, **options)
    execution = Execution(executor or ThisProcess(CPU), opened, shard or Shard(), Reporter(silent=True))
    run_stage(stage, folder, execution, earlier=earlier)
    return folder


def planned(model: Path, kind: type[Selection], settings: Settings, lexicon: Lexicon = BOTH_KINDS) -> Selection:
    """A plan is a pure function of what is chosen; to prove its composer takes most of a small run's time."""
    key = model, kind, settings, lexicon.sha256
    if key not in _PLANS:
        parts = {"candidates_per_part": 12, "pairs_per_lazy_part": 3}
        _PLANS[key] = kind.plan(load_exported(model), lexicon, load_patterns(), settings, **parts)
    return _PLANS[key]


def select(mini, folder, *, kind=FakeSelection, lexicon=BOTH_KINDS, how=None, **settings) -> Path:
    """Verbs of both kinds, at most three of a pair; `how` are arguments of `execute`."""
    chosen = Settings(**{"max_verbs": 3, "verbs": VerbConvention.WHOLE_WORDS, **settings})
    return execute(planned(mini.folder, kind, chosen, lexicon), folder, **(how or {}))


def plan_scores(mini: Any, folder: Path, kind: type[Scoring] = FakeScoring) -> Scoring:
    return kind.plan(read_selected(folder), mini, triplets_per_part=7)


def score(plan: Scoring, folder: Path | None = None, **how: Any) -> Path:
    """Into the selection's folder by default."""
    source = plan.selected.folder
    return execute(plan, folder or source, earlier={"select": source}, **how)


def triplets(folder: Path, name: str = "triplets.parquet") -> pl.DataFrame:
    return pl.read_parquet(folder / name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "selection.json").read_text())
    return found
