"""Trainings on the synthetic task for tests, and as a program: ENCODER FOLDER STEP trains and kills itself."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import synthetic_pairs
from negengine.engine.library.training_options import TrainingOptions
from negengine.engine.runs.progress import Reporter
from negengine.export.checkpoint_files import TrainingRecord
from negengine.export.tasks import TEXT_CLASSIFICATION
from negengine.export.training.base import Base
from negengine.export.training.fit import Job, train
from negengine.export.training.nli import pair_encoder
from negengine.export.training.settings import Place, settings_of

DEFAULTS = {"batch_size": 8, "epochs": 2, "learning_rate": 3e-3, "max_length": 32}
LABELS = ("negated", "not negated")


def interrupt() -> None:
    raise KeyboardInterrupt


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(
    encoder: Path,
    folder: Path,
    *,
    at: tuple[int, Callable[[], None]] | None = None,
    scored: tuple[int, Callable[[], None]] | None = None,
    accuracies: Sequence[float] = (),
    weights: float | None = None,
    opened: Callable[[Any], object] = lambda _model: None,
    learns: Callable[[Any], object] = lambda _batch: None,
    **options,
) -> TrainingRecord:
    """Train on 80 pairs, ten steps an epoch, with a checkpoint every three steps."""
    plain = {"device": "cpu", "threads": 1, "save_steps": 3, "progress": False}
    given = TrainingOptions(output=folder, **plain | options)
    place = Place.find("cpu", 1)
    calls, evaluations = 0, 0

    class Opened(Base):
        def open(self, say):
            model = super().open(say)
            for parameter in model.parameters() if weights is not None else ():
                parameter.data.fill_(weights)
            opened(model)
            return model

    base = Opened.find(str(encoder), TEXT_CLASSIFICATION.head, LABELS)

    def job() -> Job:
        encode = pair_encoder(base.tokenizer, 32)
        learned = synthetic_pairs.pairs(80)

        def collate(examples):
            nonlocal calls
            calls += examples[0] in learned
            if at is not None and calls == at[0]:
                at[1]()
            batch = encode(examples)
            if examples[0] in learned:
                learns(batch)
            return batch

        def score(logits, labels):
            nonlocal evaluations
            evaluations += 1
            if scored is not None and evaluations == scored[0]:
                scored[1]()
            found = synthetic_pairs.accuracy(logits, labels)
            return found | {"accuracy": accuracies[evaluations - 1]} if accuracies else found

        return Job(learned, synthetic_pairs.pairs(40, seed=1), collate, score)

    settings = settings_of(given, DEFAULTS, place, base.longest)
    return train("test train", base, job, {}, settings, place, given, Reporter(silent=not given.progress))


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), at=(int(sys.argv[3]), kill))
