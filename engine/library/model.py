"""A model and how it is opened: `ng.load` returns it, and every run function takes it."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ..basics.choices import LANGUAGE_MODELS, Precision
from ..basics.errors import InputError, check_number, choice
from ..inference.causal import open_language_model
from ..inference.device import Device, choose_devices
from ..inference.exported import ExportedModel, NotExportedError, load_exported
from ..inference.model import LanguageModel


@dataclass(frozen=True, eq=False)
class Model:
    """An exported model, and where and how it runs. Its graph is opened when it is used first.

    Attributes:
        exported: The export: its folder, name, digests.
        devices: Where it runs; several share the work, one process for each.
        precision: `auto`, `fp32` or `mixed`.
        batch_tokens: Largest number of tokens in a batch; None for the device's usual number.
        threads: CPU threads, each of which runs its own batches; None means one for each core.
        ahead: The fp32 model that a thread opens (see `opening`); None if it is opened when it is used first.
    """

    exported: ExportedModel
    devices: tuple[Device, ...]
    precision: Precision = Precision.AUTO
    batch_tokens: int | None = None
    threads: int | None = None
    ahead: Future[LanguageModel] | None = None

    @property
    def name(self) -> str:
        """The model's name: hub id, or the name of the local folder it was made from."""
        return self.exported.name

    @cached_property
    def reference(self) -> LanguageModel:
        """The fp32 model, opened once and kept, for uses outside of runs, such as `predict`."""
        return self._open() if self.ahead is None else self.ahead.result()

    def opening(self) -> "Model":
        """The same model for a few sentences: a thread opens the fp32 model while the caller does something else.

        On the CPU it takes the graph with matrix products. That one opens in two thirds of the time of the graph with
        convolutions; a few sentences would gain less from the faster kernels.
        """
        thread = ThreadPoolExecutor(1, "open")
        ahead = thread.submit(self._open, self.exported.graph)
        thread.shutdown(wait=False)
        return replace(self, ahead=ahead)

    def _open(self, graph: Path | None = None) -> LanguageModel:
        return open_language_model(
            self.exported, self.devices[0], batch_tokens=self.batch_tokens, threads=self.threads, graph=graph
        )

    def __repr__(self) -> str:
        devices = ", ".join(str(device) for device in self.devices)
        return f"Model({self.name!r} on {devices}, precision {self.precision})"


@dataclass(frozen=True)
class ModelReference:
    """A model that is named but not found yet: the run function that gets it knows the task."""

    reference: str  # as for `find_model`; or a hub id, with `@REVISION` if one is meant, or a checkpoint's folder
    folder: Path | None = None  # where its export is or goes; None for the usual folder
    device: str = "auto"
    precision: str = "auto"
    batch_tokens: int | None = None
    threads: int | None = None

    def open(self, task: str | None) -> Model:
        """Find the model; it is exported on first use."""

        def find(place: str | Path) -> Model:
            return find_model(
                place,
                task=task,
                device=self.device,
                precision=self.precision,
                batch_tokens=self.batch_tokens,
                threads=self.threads,
            )

        try:
            return find(self.folder or self.reference)
        except NotExportedError:
            from .load import export  # it is built on this module

            return find(export(self.reference, self.folder, task=task))


ModelLike = Model | ModelReference | str | Path


def find_model(
    reference: Model | str | Path,
    *,
    task: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    batch_tokens: int | None = None,
    threads: int | None = None,
) -> Model:
    """Find a model that is exported already: by its folder or its name under `models/`; a `Model` is returned as it is.

    Without a task, either kind of language model is found.

    Raises:
        InputError: The model, a device or the precision does not exist, or a number is too large.
    """
    if isinstance(reference, Model):
        if reference.exported.task not in ([task] if task else LANGUAGE_MODELS):
            needed = task or " or ".join(LANGUAGE_MODELS)
            raise InputError(f"{reference.name} is a {reference.exported.task} model; {needed} is needed")
        return reference
    devices, kind = check_opening(device, precision)
    check_number("--batch-tokens", batch_tokens, 1, 2**20)
    check_number("--threads", threads, 1, 1_024)
    return Model(load_exported(reference, task=task), devices, kind, batch_tokens, threads)


def open_model(reference: ModelLike, *, task: str | None = None) -> Model:
    """The model of a run function: found, or exported on first use, as `ng.load` does it, with its errors."""
    if isinstance(reference, Model):
        return find_model(reference, task=task)
    return (reference if isinstance(reference, ModelReference) else ModelReference(str(reference))).open(task)


def check_opening(device: str, precision: str) -> tuple[tuple[Device, ...], Precision]:
    """Read the names of devices and of a precision.

    Raises:
        InputError: One of them does not exist.
    """
    return choose_devices(device), choice(Precision, "--precision", precision)
