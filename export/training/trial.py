"""How long a training will take: one step is computed and timed before it begins, and thrown away."""

import time
from itertools import islice

import torch
from transformers import PreTrainedModel

from ...engine.runs.progress import Reporter
from .job import Batch, Job
from .settings import Place, Settings

_MEASURED = 2  # steps; the first one also makes room in memory and chooses kernels, so it does not count
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def say_duration(
    job: Job, model: PreTrainedModel, settings: Settings, place: Place, reporter: Reporter, *, done: int = 0
) -> None:
    """Say how many steps there are and how long they will take here.

    The steps are of the first examples: forward and backward, without the optimiser. No weight changes, and the Trainer
    sets all random generators after this.

    Args:
        job: What is trained.
        model: The job's model.
        settings: The hyperparameters.
        place: Where it will run.
        reporter: Gets the line.
        done: Steps that an earlier process has done.
    """
    steps = settings.epochs * -(-len(job.train) // settings.batch_size)
    seconds = seconds_per_step(job, model, settings, place)
    left = (steps - done) * seconds
    reporter.say(
        f"{job.name}: {steps:,} steps of {settings.batch_size} {job.unit} in {settings.epochs} epochs, "
        f"about {_rough(left)} on {place.device} ({seconds:.2g} s a step)"
    )


def seconds_per_step(job: Job, model: PreTrainedModel, settings: Settings, place: Place) -> float:
    """How long a step takes; the model has the same weights afterwards, and no gradients."""
    model.to(place.device).train()
    examples = iter(job.train)
    seconds = 0.0
    for _ in range(_MEASURED):
        batch = job.collate(list(islice(examples, settings.batch_size)) or list(job.train[:1]))
        start = time.perf_counter()
        _step(model, batch, settings, place)
        seconds = time.perf_counter() - start
    model.zero_grad(set_to_none=True)
    return seconds


def _step(model: PreTrainedModel, batch: Batch, settings: Settings, place: Place) -> None:
    inputs = {name: values.to(place.device) for name, values in batch.items()}
    dtype = _DTYPES.get(settings.precision)
    with torch.autocast(place.device, dtype=dtype, enabled=dtype is not None):
        loss = model(**inputs).loss
    loss.backward()
    if place.device == "cuda":
        torch.cuda.synchronize()


def _rough(seconds: float) -> str:
    """A duration without digits that nobody can know: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
