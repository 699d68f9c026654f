"""Where the time of a selection goes: its parts, and the lazy selection beside the exhaustive one.

The model of each run is open already, so that only its own time is measured.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..engine.basics.choices import Precision
from ..engine.experiments.negation.negation_runs import SelectionRun
from ..engine.experiments.negation.select import TRIPLETS_FILE, Selection, Settings
from ..engine.inference.batches import Advance, Steps, ignored
from ..engine.inference.model import Decider, Decisions, Ids, LanguageModel
from ..engine.inference.precision import Models
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.text.token_ids import EncodedSentences
from .ours import silently, with_open_model

_COMPOSED = 200_000  # sentences; a tenth of a second or less
PAIRS = 4  # run from end to end


def run_selection(selection: Selection, models: Models, decider: Decider, folder: Path) -> None:
    """Run a selection from end to end, whose selecting pattern a decider decides."""
    opened = PatternDeciders(models, Precision.FP32, {selection.patterns.selecting.name: decider})
    stage = with_open_model(
        selection, opened, describe=lambda *_: {}, calibrate=lambda *_: {}, use=lambda _stage, model, _found: model
    )
    silently(stage, folder)


class _Timed(Decider):
    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self.seconds = 0.0

    def deciding(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Steps[Decisions]:
        yield ()  # one task after the other, so that their times do not overlap
        started = time.perf_counter()
        decisions = self._decider.decide(ids, mask_position, expected, advance)
        self.seconds += time.perf_counter() - started
        return decisions


class _Nothing(Decider):
    """A model that costs nothing and repeats every fourth sentence."""

    def deciding(self, ids: Ids, mask_position: Ids, expected: Ids, advance: Advance = ignored) -> Steps[Decisions]:  # noqa: ARG002
        yield ()
        decisions = Decisions.empty(len(ids))
        repeats = np.arange(len(ids)) % 4 == 0
        decisions.ids[:] = np.stack([np.where(repeats, expected, expected + 1), np.where(repeats, 1, 2)], axis=1)
        decisions.logits[:] = 0
        advance(len(ids))
        return decisions


def take_apart(
    selection: Selection, model: LanguageModel, sentences: EncodedSentences, *, pairs: int = PAIRS
) -> dict[str, float]:
    """Seconds for 1,000 sentences in each part of a selection, and the model's share of the wall time of a run.

    `composing` makes token ids from the ids of the words, on one core; `model` includes copies to a device and back;
    `writing` is that of finished parts, with fsync.
    """

    def sample(size: int) -> Selection:
        plan = (selection.exported, selection.lexicon, selection.patterns, Settings(pairs=size))
        return Selection.plan(*plan, candidates_per_part=_COMPOSED)

    grid = selection.verbs[0].grid
    many = sample(min(len(grid.pairs), max(1, _COMPOSED // grid.verbs)))
    _ = many.composer  # its check with the tokenizer is done once a run
    started = time.perf_counter()
    many.prepare(0)
    composing = (time.perf_counter() - started) / many.sizes[0]

    started = time.perf_counter()
    for piece in sentences.buckets:
        model.decide(piece.ids, piece.mask_position, sentences.expected[piece.rows])
    deciding = (time.perf_counter() - started) / len(sentences.expected)

    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_selection(many, Models(model), _Nothing(), Path(folder) / "nothing")
        total = (time.perf_counter() - started) / many.verbs[0].grid.size
        few, timed = sample(min(pairs, len(grid.pairs))), _Timed(model)
        started = time.perf_counter()
        run_selection(few, Models(model), timed, Path(folder) / "few")
        share = timed.seconds / (time.perf_counter() - started)
    seconds = {"composing": composing, "model": deciding, "writing": max(0.0, total - composing)}
    return {**{part: 1000 * own for part, own in seconds.items()}, "model share": share}


def lazy_beside_exhaustive(
    job: Selection, models: Models, mixed: Decider | None, authors_rate: float, pairs: int
) -> dict[str, Any]:
    """Lazy, in mixed precision where possible, against exhaustive in fp32, and the authors' program at its rate."""
    found: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in ("exhaustive", "lazy")}
        deciders = {"exhaustive": models.reference, "lazy": mixed or models.reference}
        for name, folder in folders.items():
            settings = Settings(pairs=pairs, lazy=name == "lazy")
            selection = Selection.plan(job.exported, job.lexicon, job.patterns, settings)
            started = time.perf_counter()
            run_selection(selection, models, deciders[name], folder)
            found[f"{name} seconds"] = time.perf_counter() - started
            summary = SelectionRun.open(folder).summary
            found[f"{name} tested"] = summary["tested"]
            found.setdefault("repeating %", summary["ratio"])
        one, other = ((folder / TRIPLETS_FILE).read_bytes() for folder in folders.values())
        found["same triplets"] = one == other
    return {
        "pairs": pairs,
        **found,
        "times fewer calls": found["exhaustive tested"] / found["lazy tested"],
        "times exhaustive": found["exhaustive seconds"] / found["lazy seconds"],
        "times authors, selection": found["exhaustive tested"] / authors_rate / found["lazy seconds"],
    }
