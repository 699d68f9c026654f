"""Running transformers' Trainer: from a job and its settings to trained weights, going on from the last checkpoint.

A training that was stopped goes on from its last complete checkpoint, with the optimiser, the order of the examples and
the state of every random generator as they were. So on the CPU it ends with the same weights as an undisturbed one, bit
for bit; on a GPU as far as its kernels repeat their results.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import accelerate  # noqa: F401 - Trainer needs it, and would say so in many lines
import torch
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback, TrainerState
from transformers.trainer_utils import set_seed

from ...engine.errors import InputError
from ...engine.files.atomic import unwritable
from ...engine.runs.progress import Meter, Reporter
from .checkpoints import complete, incomplete, is_complete, seal, steps_of
from .job import Job
from .settings import Place, Settings
from .trial import say_duration

SAVE_STEPS = 500
"""Steps between two checkpoints within an epoch; each epoch ends with one."""

_KEPT = 2  # checkpoints on the disk: an older one stays until the newer one is complete
_STATE = "trainer_state.json"
_TIMES = ("_runtime", "_per_second")  # what the log has beside scores
_SCORES_AT_ONCE = 4  # the dev set needs no gradients: so many times as many examples fit


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model.

    Attributes:
        model: With the weights of the last epoch, or of the best one if there was early stopping.
        steps: How many steps were trained, by earlier processes too.
        epochs: How many epochs.
        score: The job's best score, of the epoch whose weights the model has.
        history: One entry for each epoch: epoch, and the loss and all scores on the dev set.
    """

    model: PreTrainedModel
    steps: int
    epochs: int
    score: float
    history: list[dict[str, float]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {"steps": self.steps, "epochs": self.epochs, "score": self.score, "history": self.history}


def fit(
    job: Job,
    settings: Settings,
    place: Place,
    folder: Path,
    *,
    reporter: Reporter,
    what: str = "train",
    save_steps: int = SAVE_STEPS,
) -> Fitted:
    """Train, or go on with a training.

    Args:
        job: What is trained on what.
        settings: The hyperparameters.
        place: Where it runs.
        folder: Where the checkpoints are kept. The caller holds it, and removes it once the result is safe.
        reporter: Gets the progress.
        what: What the progress calls the training.
        save_steps: Steps between two checkpoints within an epoch.

    Raises:
        InputError: Memory or the disk is full, or the loss is not a number any more.
    """
    torch.set_num_threads(place.threads)
    for remains in incomplete(folder):
        shutil.rmtree(remains)
    checkpoint, state = _resumed(folder, settings)
    with _told(job, settings, folder):
        set_seed(settings.seed)
        model = job.open()
        if state is None or not _stopped_early(state, settings):
            say_duration(job, model, settings, place, reporter, done=state.global_step if state else 0)
            trainer = _trainer(job, model, settings, place, folder, save_steps)
            total = _steps(job, settings)
            done = steps_of(checkpoint) if checkpoint else 0
            if checkpoint:
                reporter.say(f"{what}: going on after step {done:,} of {total:,}")
            with reporter.meter(what, total, done, unit="steps") as meter:
                trainer.add_callback(_Watch(meter, reporter, job))
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            state, model = trainer.state, trainer.model
        if settings.patience is not None:
            model = type(model).from_pretrained(folder / f"checkpoint-{state.best_global_step}")
    history = _history(state, job.best)
    score = history[-1][job.best] if settings.patience is None else float(state.best_metric or 0.0)
    return Fitted(model.cpu().eval(), state.global_step, int(history[-1]["epoch"]), score, history)


def _trainer(
    job: Job, model: PreTrainedModel, settings: Settings, place: Place, folder: Path, save_steps: int
) -> Trainer:
    def scores(prediction: EvalPrediction) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        return dict(job.score(logits, prediction.label_ids))

    arguments = TrainingArguments(
        output_dir=str(folder.absolute()),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=_SCORES_AT_ONCE * settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_ratio=settings.warmup,
        lr_scheduler_type="linear",
        adam_epsilon=1e-8,
        max_grad_norm=1.0,
        seed=settings.seed,
        data_seed=settings.seed,
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        use_cpu=place.device == "cpu",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=_KEPT,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        metric_for_best_model=job.best,
        greater_is_better=True,
        restore_callback_states_from_checkpoint=True,
        remove_unused_columns=False,  # an example need not be a dictionary
        label_names=["labels"],
        disable_tqdm=True,
        report_to=[],
        log_level="error",
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # noqa: SLF001 - several GPUs would multiply the batch size
    trainer = Trainer(
        model=model,
        args=arguments,
        data_collator=job.collate,
        train_dataset=job.train,
        eval_dataset=job.dev,
        compute_metrics=scores,
        callbacks=[_Saves(save_steps, _steps(job, settings) // settings.epochs)],
    )
    trainer.remove_callback(PrinterCallback)
    if settings.patience is not None:
        trainer.add_callback(EarlyStoppingCallback(settings.patience))
    return trainer


class _Saves(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Checkpoints within an epoch, and the mark of a complete checkpoint."""

    def __init__(self, steps: int, steps_per_epoch: int) -> None:
        self._steps, self._steps_per_epoch = steps, steps_per_epoch

    def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> None:
        # An epoch's last step is saved after the evaluation alone: a training that goes on from it begins a new epoch.
        if state.global_step % self._steps == 0 and state.global_step % self._steps_per_epoch:
            control.should_save = True

    def on_save(self, args: Any, state: Any, _: Any, **__: Any) -> None:
        seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")


class _Watch(TrainerCallback):  # type: ignore[misc]
    """Progress; and an error where the loss is not a number any more."""

    def __init__(self, meter: Meter, reporter: Reporter, job: Job) -> None:
        self._meter, self._reporter, self._job = meter, reporter, job

    def on_step_end(self, args: Any, *_: Any, **__: Any) -> None:
        self._meter.advance(1, args.train_batch_size)

    def on_log(self, _: Any, state: Any, __: Any, logs: Mapping[str, float], **___: Any) -> None:
        if not isfinite(logs.get("loss", 0.0)):
            raise InputError(
                f"{self._job.name}: the loss is not a number any more after step {state.global_step:,}; take a smaller "
                "--lr, or --precision fp32"
            )

    def on_evaluate(self, _: Any, state: Any, __: Any, metrics: Mapping[str, float], **___: Any) -> None:
        score = metrics[f"eval_{self._job.best}"]
        epoch = f"epoch {round(state.epoch)} of {round(state.num_train_epochs)}"
        self._reporter.say(f"{epoch}: {self._job.best} {100 * score:.1f} % on dev")


@contextmanager
def _told(job: Job, settings: Settings, folder: Path) -> Iterator[None]:
    """Errors of the machine in one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise InputError(
            f"{job.name}: no memory left for batches of {settings.batch_size}; take a smaller --batch-size or a "
            "smaller model"
        ) from None
    except OSError as error:
        raise unwritable(folder, error) from error


def _resumed(folder: Path, settings: Settings) -> tuple[Path | None, TrainerState | None]:
    """The newest checkpoint that a training can go on from, with its state: the best epoch's must be there, too."""
    for checkpoint in complete(folder):
        state = TrainerState.load_from_json(str(checkpoint / _STATE))
        best = state.best_global_step if settings.patience is not None else None
        if best is None or is_complete(checkpoint.with_name(f"checkpoint-{best}")):
            return checkpoint, state
    return None, None


def _steps(job: Job, settings: Settings) -> int:
    return settings.epochs * -(-len(job.train) // settings.batch_size)


def _stopped_early(state: TrainerState, settings: Settings) -> bool:
    """Whether a training was finished before its last epoch, and only its result is missing."""
    if settings.patience is None:
        return False
    saved = state.stateful_callbacks.get(EarlyStoppingCallback.__name__, {})
    saved = saved[-1] if isinstance(saved, list) else saved
    return bool(saved.get("attributes", {}).get("early_stopping_patience_counter", 0) >= settings.patience)


def _history(state: TrainerState, best: str) -> list[dict[str, float]]:
    """The scores on the dev set after each epoch. The loss of a resumed epoch is that of its last steps: it is left."""
    return [
        {"epoch": round(entry["epoch"])}
        | {
            name.removeprefix("eval_"): float(value)
            for name, value in entry.items()
            if name.startswith("eval_") and not name.endswith(_TIMES)
        }
        for entry in state.log_history
        if f"eval_{best}" in entry
    ]
