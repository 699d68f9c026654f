"""One training from its job to its folder: check, train or go on with transformers' Trainer, publish.

On the CPU, a training that goes on from its last complete checkpoint ends with the weights of an undisturbed one.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import accelerate  # noqa: F401 - Trainer needs it, and would say so in many lines
import numpy as np
import torch
from numpy.typing import NDArray
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

from ...engine.basics.atomic import unwritable
from ...engine.basics.errors import InputError
from ...engine.basics.reading import refuse_few_open_files
from ...engine.library.training_options import TrainingOptions
from ...engine.runs.progress import Meter, Reporter
from ..checkpoint_files import TrainingRecord
from ..quiet import quiet
from .base import Base
from .folder import TrainingFolder, checkpoints_in, is_complete, seal, steps_of
from .settings import Place, Settings

SAVE_STEPS = 500  # between two checkpoints within an epoch; each epoch ends with one

_KEPT = 2  # checkpoints on the disk: an older one stays until the newer one is complete
_STATE = "trainer_state.json"
_TIMES = ("_runtime", "_per_second")  # what the log has beside scores
_SCORES_AT_ONCE = 4  # the dev set needs no gradients: so many times as many examples fit

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Job:
    """What is trained on what: the part of a training that is special to its task."""

    train: Sequence[Any]  # the examples to learn from, of any type
    dev: Sequence[Any]  # the examples to score after each epoch
    # Examples → the model's inputs, and `labels`; called with each batch, so the encoded ones are never all in memory.
    collate: Callable[[Sequence[Any]], Batch]
    # Logits and labels of the dev set → scores by name, as fractions. The labels are those of `collate`; where they
    # have different lengths, they are padded with -100.
    score: Callable[[NDArray[np.float32], NDArray[np.int64]], Mapping[str, float]]
    best: str = "accuracy"  # the score that early stopping looks at, and that progress shows
    unit: str = "pairs"  # what an example is, in the plural


def train(
    kind: str, base: Base, make_job: Callable[[], Job], data: Mapping[str, Any], settings: Settings, place: Place,
    options: TrainingOptions, reporter: Reporter,
) -> TrainingRecord:  # fmt: skip
    """Train a model into `options.output`, go on with a training that was stopped, or find it finished.

    `kind` is the command, such as `nli train`. `data` is what the result depends on beside model and settings: digests
    of the data, and what was drawn from them.

    Raises InputError if the folder belongs to something else or is in use; memory or disk are full; the weights cannot
    be read; the texts are too long for the model; the loss is not a number any more.
    """
    folder = options.output
    refuse_few_open_files()
    if settings.max_length > base.longest:
        raise InputError(f"--max-length {settings.max_length}: {base.name} takes at most {base.longest:,} tokens")
    identity = {**base.identity, **data, **asdict(settings)}
    with quiet(), TrainingFolder.hold(folder, kind, identity, {"command": options.command}) as held:
        if held.is_finished:
            reporter.say(f"{folder}: this training is finished")
            return held.record
        save_steps = options.save_steps or SAVE_STEPS
        model, result = _fit(base, make_job(), settings, place, held, save_steps, reporter, kind)

        def save(staged: Path) -> None:
            model.save_pretrained(staged)
            backend = base.tokenizer.backend_tokenizer  # in the state of its last use, if it was used
            backend.no_truncation()
            backend.no_padding()
            base.tokenizer.save_pretrained(staged)

        held.publish(save, result)
        return held.record


def _fit(
    base: Base, job: Job, settings: Settings, place: Place, held: TrainingFolder, save_steps: int, reporter: Reporter,
    what: str,
) -> tuple[PreTrainedModel, dict[str, Any]]:  # fmt: skip
    """The trained model and its record: steps, epochs, the best score, and the dev set's scores after each epoch."""
    torch.set_num_threads(place.threads)
    folder, name = held.checkpoints, base.name
    checkpoint, state = _resumed(folder, settings)
    with _told(name, settings, folder):
        set_seed(settings.seed)
        model = base.open(reporter.say)
        held.write_record()  # a checkpoint that cannot be read leaves no record
        stopped = False  # before the last epoch: only the result is missing
        if state is not None and settings.patience is not None:
            saved = state.stateful_callbacks.get(EarlyStoppingCallback.__name__, {})
            own = (saved[-1] if isinstance(saved, list) else saved).get("attributes", {})
            stopped = own.get("early_stopping_patience_counter", 0) >= settings.patience
        if state is None or not stopped:
            done, total = steps_of(checkpoint) if checkpoint else 0, _steps(job, settings)
            work = f"{total:,} steps of {settings.batch_size} {job.unit} in {settings.epochs} epochs"
            reporter.say(f"{name}: {work} on {place.device}")
            trainer = _trainer(job, model, settings, place, held, save_steps)
            if checkpoint:
                reporter.say(f"{what}: going on after step {done:,} of {total:,}")
            with reporter.meter(what, total, done, unit="steps") as meter:
                trainer.add_callback(_Watch(meter, reporter, name, job.best))
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            state, model = trainer.state, trainer.model
        if settings.patience is not None:
            model = type(model).from_pretrained(folder / f"checkpoint-{state.best_global_step}")
    history: list[dict[str, float]] = []  # the loss of a resumed epoch is that of its last steps: it is left
    for entry in state.log_history:
        if f"eval_{job.best}" in entry:
            own = {key.removeprefix("eval_"): float(value) for key, value in entry.items()
                   if key.startswith("eval_") and not key.endswith(_TIMES)}  # fmt: skip
            history.append({"epoch": round(entry["epoch"])} | own)
    score = history[-1][job.best] if settings.patience is None else float(state.best_metric or 0.0)
    result = {"steps": state.global_step, "epochs": int(history[-1]["epoch"]), "score": score, "history": history}
    return model.cpu().eval(), result


def _trainer(
    job: Job, model: PreTrainedModel, settings: Settings, place: Place, held: TrainingFolder, save_steps: int
) -> Trainer:
    def scores(prediction: EvalPrediction) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        return dict(job.score(logits, prediction.label_ids))

    arguments = TrainingArguments(
        output_dir=str(held.checkpoints.absolute()),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=_SCORES_AT_ONCE * settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup,  # below 1, a part of all steps
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
        callbacks=[_Saves(save_steps, _steps(job, settings) // settings.epochs, held.refuse_taken)],
    )
    trainer.remove_callback(PrinterCallback)
    if settings.patience is not None:
        trainer.add_callback(EarlyStoppingCallback(settings.patience))
    return trainer


class _Saves(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Checkpoints within an epoch, and the mark of a complete checkpoint."""

    def __init__(self, steps: int, steps_per_epoch: int, refuse_taken: Callable[[], None]) -> None:
        self._steps, self._steps_per_epoch, self._refuse_taken = steps, steps_per_epoch, refuse_taken

    def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> None:
        # An epoch's last step is saved after the evaluation alone: a training that goes on from it begins a new epoch.
        if state.global_step % self._steps == 0 and state.global_step % self._steps_per_epoch:
            control.should_save = True

    def on_save(self, args: Any, state: Any, _: Any, **__: Any) -> None:
        self._refuse_taken()  # the checkpoints of the process that has taken the folder stay as they are
        seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")


class _Watch(TrainerCallback):  # type: ignore[misc]
    """Progress; and an error where the loss is not a number any more."""

    def __init__(self, meter: Meter, reporter: Reporter, name: str, best: str) -> None:
        self._meter, self._reporter, self._name, self._best = meter, reporter, name, best

    def on_step_end(self, args: Any, *_: Any, **__: Any) -> None:
        self._meter.advance(1, args.train_batch_size)

    def on_log(self, _: Any, state: Any, __: Any, logs: Mapping[str, float], **___: Any) -> None:
        if not isfinite(logs.get("loss", 0.0)):
            said = f"the loss is not a number any more after step {state.global_step:,}"
            raise InputError(f"{self._name}: {said}; take a smaller --lr, or --precision fp32")

    def on_evaluate(self, _: Any, state: Any, __: Any, metrics: Mapping[str, float], **___: Any) -> None:
        score = metrics[f"eval_{self._best}"]
        epoch = f"epoch {round(state.epoch)} of {round(state.num_train_epochs)}"
        self._reporter.say(f"{epoch}: {self._best} {100 * score:.1f} % on dev")


@contextmanager
def _told(name: str, settings: Settings, folder: Path) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        told = f"no memory left for batches of {settings.batch_size}"
        raise InputError(f"{name}: {told}; take a smaller --batch-size or a smaller model") from None
    except OSError as error:
        raise unwritable(folder, error) from error


def _steps(job: Job, settings: Settings) -> int:
    return settings.epochs * -(-len(job.train) // settings.batch_size)


def _resumed(folder: Path, settings: Settings) -> tuple[Path | None, TrainerState | None]:
    """The newest checkpoint that a training can go on from, with its state: the best epoch's must be there, too.

    What a killed process has left unfinished is removed.
    """
    for checkpoint in checkpoints_in(folder):
        if not is_complete(checkpoint):
            shutil.rmtree(checkpoint)
    for checkpoint in checkpoints_in(folder):
        state = TrainerState.load_from_json(str(checkpoint / _STATE))
        best = state.best_global_step if settings.patience is not None else None
        if best is None or checkpoint.with_name(f"checkpoint-{best}").is_dir():
            return checkpoint, state
        shutil.rmtree(checkpoint)  # from an earlier one, transformers would take it for the newest
    return None, None
