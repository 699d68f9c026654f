"""Make the largest run of the main job, with a fake model, and time its report: python large_run.py MODEL FOLDER.

The whole grid of the bundled lexicon has 18,200 pairs; with 20 verbs each these are 364,000 triplets and 1.8 million
scores. MODEL is an exported model, of which only the tokenizer is used.
"""

import sys
import time
from pathlib import Path

from fake_models import FakeScoring, FakeSelection
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.score import read_selected
from negengine.engine.experiments.negation.select import Settings
from negengine.engine.inference.device import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns


def make(model: str, folder: Path) -> None:
    """A scored run of the whole grid."""
    exported = load_exported(model)
    settings = Settings(lazy=True)
    selection = FakeSelection.plan(exported, load_lexicon(), load_patterns(), settings)
    work = Execution(ThisProcess(CPU), Opening())
    run_stage(selection, folder, work)
    run_stage(FakeScoring.plan(read_selected(folder), exported), folder, work, earlier={"select": folder})


if __name__ == "__main__":
    target = Path(sys.argv[2])
    if not target.exists():
        make(sys.argv[1], target)
    import negengine as ng

    start, used = time.perf_counter(), time.process_time()
    run = ng.open(target)
    path = run.report(target.with_suffix(".html"))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    print(f"{len(run.items):,} scores: {path.stat().st_size / 1e6:.2f} MB in {seconds:.1f} s, {used:.1f} s of CPU")  # noqa: T201
