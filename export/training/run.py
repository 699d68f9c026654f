"""One training from its settings to its folder: check, train or go on, publish. A finished one is not trained again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from ...engine.commands.train_command import TrainingOptions
from ...engine.errors import InputError
from ...engine.files.reading import refuse_few_open_files
from ...engine.runs.progress import Reporter
from ..quiet import quiet
from ..trained import TrainingRecord
from . import needs
from .base import Base
from .fit import SAVE_STEPS, fit
from .folder import TrainingFolder
from .job import Job
from .settings import Place, Settings


@dataclass(frozen=True)
class Kind:
    """A kind of training.

    Attributes:
        name: The command, such as `nli train`.
        defaults: The hyperparameters that nobody has given, by their names in `Settings`.
    """

    name: str
    defaults: Mapping[str, Any]


def settings_of(kind: Kind, options: TrainingOptions, place: Place) -> Settings:
    """The hyperparameters of a training: those that were given, and for the rest the defaults of its kind.

    Raises:
        InputError: One of them is not possible.
    """
    given = {**kind.defaults, **options.hyperparameters()}
    return Settings(**given, seed=options.seed, precision=place.precision(options.precision))


def _begun(held: TrainingFolder, job: Job) -> PreTrainedModel:
    """The model; once its weights are read, the training is recorded."""
    model = job.open()
    held.begin()
    return model


def train(
    kind: Kind,
    base: Base,
    make_job: Callable[[], Job],
    data: Mapping[str, Any],
    settings: Settings,
    place: Place,
    folder: Path,
    options: TrainingOptions,
    reporter: Reporter,
) -> TrainingRecord:
    """Train a model into a folder, go on with a training that was stopped, or find it finished.

    Args:
        kind: What is trained.
        base: The checkpoint to start from.
        make_job: Gives the job; called only if there is something left to train.
        data: What the result depends on beside model and settings: digests of the data, and what was drawn from them.
        settings: The hyperparameters.
        place: Where it runs.
        folder: The folder to write.
        options: Of the command.
        reporter: Gets messages and progress.

    Raises:
        InputError: The folder belongs to something else or is in use; memory or disk do not suffice; the weights cannot
            be read; the texts are too long for the model.
    """
    refuse_few_open_files()
    if settings.max_length > base.longest:
        raise InputError(f"--max-length {settings.max_length}: {base.name} takes at most {base.longest:,} tokens")
    identity = {**base.identity, **data, **settings.document()}
    with quiet(), TrainingFolder.hold(folder, kind.name, identity, {"command": options.command}) as held:
        if held.is_finished:
            reporter.say(f"{folder}: this training is finished")
            return held.record
        if (weights := base.bytes_of_weights) is None:
            reporter.say(f"{base.name}: the size of its weights is not known, so memory and disk are not checked")
        else:
            needed = needs.estimate(weights, base.config, settings)
            needs.check(base.name, needed, place, folder, settings, reporter)
        job = make_job()
        fitted = fit(
            replace(job, open=lambda: _begun(held, job)),
            settings,
            place,
            held.checkpoints,
            reporter=reporter,
            what=kind.name,
            save_steps=options.save_steps or SAVE_STEPS,
        )

        def save(staged: Path) -> None:
            fitted.model.save_pretrained(staged)
            job.tokenizer.save_pretrained(staged)

        held.publish(save, fitted.document())
        return held.record
