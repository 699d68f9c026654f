"""A model and how it is opened: `ng.load` returns it, exported on first use, and every run function takes it."""

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

from ..basics.choices import LANGUAGE_MODELS, Precision
from ..basics.errors import InputError, choice, needs_extra
from ..basics.forks import refuse_forked
from ..basics.named import plugged
from ..basics.option import Opening, OpeningOptions
from ..basics.reading import is_file
from ..inference.causal import open_language_model
from ..inference.device import choose_devices
from ..inference.exported import MANIFEST, ExportedModel, NotExportedError, load_exported, models_folder
from ..inference.model import LanguageModel
from ..inference.session import Device
from ..runs.progress import Reporter


@dataclass(frozen=True, eq=False)
class Model:
    """An exported model, and where and how it runs. Its graph is opened when it is used first.

    Attributes:
        exported: The export: its folder, name, digests.
        devices: Where it runs; several share the work, one process for each.
        opening: How it is opened.
        ahead: The fp32 model that a thread opens (see `begun`); None if it is opened when it is used first.
    """

    exported: ExportedModel
    devices: tuple[Device, ...]
    opening: Opening
    ahead: Future[LanguageModel] | None = None

    @property
    def name(self) -> str:
        """The hub id, or the name of the local folder that it was made from."""
        return self.exported.name

    @cached_property
    def reference(self) -> LanguageModel:
        """The fp32 model, opened once and kept, for uses outside of runs, such as `predict`."""
        return self._open() if self.ahead is None else self.ahead.result()

    def begun(self) -> "Model":
        """The same model for a few sentences: a thread opens the fp32 model while the caller does something else."""
        thread = ThreadPoolExecutor(1, "open")
        # The graph with matrix products opens in two thirds of the time of that with convolutions, whose faster kernels
        # a few sentences would gain less from.
        ahead = thread.submit(self._open, self.exported.graph)
        thread.shutdown(wait=False)
        return replace(self, ahead=ahead)

    def _open(self, graph: Path | None = None) -> LanguageModel:
        return open_language_model(self.exported, self.devices[0].reference, graph=graph, **self.opening.session)

    def __repr__(self) -> str:
        devices = ", ".join(str(device) for device in self.devices)
        return f"Model({self.name!r} on {devices}, precision {self.opening.precision})"


@dataclass(frozen=True)
class ModelReference:
    """A model that is named but not found yet: the run function that gets it knows the task."""

    reference: str  # as for `find_model`; or a hub id, with `@REVISION` if one is meant, or a checkpoint's folder
    folder: Path | None = None  # where its export is or goes; None for the usual folder
    aside: Path | None = None  # where it goes if it is not there: an export that its user removes
    opening: Opening = Opening()  # noqa: RUF009 - frozen
    exporting: Mapping[str, Any] = field(default_factory=dict)  # further arguments of `export`

    def open(self, task: str | None, look: Callable[[], None]) -> Model:
        """Find the model; it is exported on first use, after a `look` at what it is for."""
        try:
            return find_model(self.reference, self.opening, task=task, place=self.folder)
        except NotExportedError:
            look()
            made = export(self.reference, self.aside or self.folder, task=task, **self.exporting)
            return find_model(made, self.opening, task=task)


ModelLike = Model | ModelReference | str | Path


def find_model(
    reference: Model | str | Path,
    opening: Opening | None = None,
    *,
    task: str | None = None,
    place: Path | None = None,
) -> Model:
    """Find a model that is exported already: by its folder or its name under `models/`; a `Model` is returned as it is.

    Without a task, either kind of language model is found. `place` is as for `load_exported`.

    Raises:
        InputError: The model or a device does not exist.
    """
    refuse_forked()
    if isinstance(reference, Model):
        if reference.exported.task not in ([task] if task else LANGUAGE_MODELS):
            needed = task or " or ".join(LANGUAGE_MODELS)
            raise InputError(f"{reference.name} is a {reference.exported.task} model; {needed} is needed")
        return reference
    own = opening or Opening()
    devices = choose_devices(own.device, is_exact=own.is_exact)
    return Model(load_exported(reference, task=task, place=place), devices, own)


def open_model(
    reference: ModelLike,
    *,
    task: str | None = None,
    look: Callable[[], None] = lambda: None,
    **opening: Unpack[OpeningOptions],
) -> Model:
    """The model of a run function: found, or exported on first use, as `ng.load` does it, with its errors.

    `look` is called before an export, and raises InputError where the run would refuse its data.
    Raises a TypeError for what only `load` can say of a model that is open.
    """
    if not isinstance(reference, Model | ModelReference):
        return ModelReference(str(reference), opening=opening_of(opening)).open(task, look)
    if opening:
        raise TypeError(f"{reference} is open already: give {' and '.join(opening)} to `load`, which opened it")
    return find_model(reference, task=task) if isinstance(reference, Model) else reference.open(task, look)


def load(
    reference: Model | str | Path = "mini",
    *,
    task: str | None = None,
    base: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    progress: bool = True,
    **opening: Unpack[OpeningOptions],
) -> Model:
    """Find a model. A hub id, a checkpoint or `mini` that is not exported yet is exported first.

    Args:
        reference: An exported folder, its name under `models/`, a hub id, a checkpoint's folder, or `mini`.
        task: a `Task`, such as `fill-mask` or `text-generation` (a causal model). By default an export has the
            task that the checkpoint's architecture says, and either kind of language model is found.
        base: The model of a LoRA adapter, whose folder is then the reference: the two are merged and exported.
        revision: Branch, tag or commit on the hub, for an export.
        allow_pickle: Whether an export may read pickled weights, which can run code.
        progress: Whether to show the steps of an export.
        **opening: See `OpeningOptions`: `device`, `precision`, `batch_tokens` and `threads`.

    Returns:
        The model. Its graph is opened when it is used first.

    Raises:
        InputError: The model does not exist or cannot be exported, or the device or the precision does not exist.
    """
    if isinstance(reference, Model):
        return open_model(reference, task=task, **opening)
    own = opening_of(opening)
    if not any(is_file(path / MANIFEST) for path in (Path(reference), models_folder() / reference)):
        given: Any = {"task": task, "base": base, "revision": revision, "allow_pickle": allow_pickle}
        reference = export(str(reference), progress=progress, **given)
    return find_model(reference, own, task=task)


def opening_of(options: OpeningOptions) -> Opening:
    """The keyword arguments as one value; devices that do not exist are refused, before anything is exported."""
    own = Opening(**options)  # type: ignore[arg-type]  # a precision by its name
    choose_devices(own.device, is_exact=own.is_exact)
    return own


def export(
    reference: str = "mini",
    output: str | Path | None = None,
    *,
    task: str | None = None,
    bos: bool = False,
    base: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    precision: str = Precision.AUTO,
    force: bool = False,
    progress: bool = True,
) -> Path:
    """Export a checkpoint to ONNX, and return the folder, `models/NAME` by default; `load` does this if it is needed.

    `reference`, `task` and `base` are as for `load`. With `bos`, a causal model begins every text with its BOS token,
    though its tokenizer does not. Pickled weights, which `allow_pickle` reads, can run code. `force` builds again what
    has not changed. With the `precision` fp32, no int8 and fp16 graphs are made: what could use them runs in fp32.
    By default there is no int8 graph where mixed precision would be slower with it; with mixed there is.

    Raises InputError if packages that an export needs are missing, or the checkpoint cannot be exported.
    """
    asked = choice(Precision, "--precision", precision)
    say = Reporter(silent=not progress).say
    if "torch" not in sys.modules and find_spec("torch"):
        say("loading PyTorch and transformers, which takes some seconds")
    with needs_extra("export", f"an export of {reference}"):
        build = plugged("export")
    given: Any = {
        "task": task,
        "base": base,
        "revision": revision,
        "allow_pickle": allow_pickle,
        "precision": asked,
    }
    folder: Path = build(reference, None if output is None else Path(output), bos=bos, force=force, say=say, **given)
    return folder


def check_export(reference: str, output: Path | None, **given: Any) -> "Verdict":
    """Say whether a checkpoint can be exported, and why not, without building; arguments and errors as for `export`."""
    with needs_extra("export", f"an export of {reference}"):
        check = plugged("check of an export")
    verdict: Verdict = check(reference, output, **given)
    return verdict


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at before an export."""

    what: str  # its name, such as `tokenizer`
    said: str  # what was found, or why it stands against an export
    possible: bool = True  # whether an export is possible as far as this goes


@dataclass(frozen=True)
class Verdict:
    """The answer of `negengine export --check`: whether a checkpoint can be exported."""

    name: str  # what the model is called
    task: str  # what it would be exported for
    findings: tuple[Finding, ...]  # in the order in which an export would meet them

    @property
    def possible(self) -> bool:
        return all(finding.possible for finding in self.findings)

    def lines(self) -> list[str]:
        width = max(len(finding.what) for finding in self.findings)
        rows = [f"  {item.what:{width}}  {'' if item.possible else 'no: '}{item.said}" for item in self.findings]
        return [f"{self.name} {'can' if self.possible else 'cannot'} be exported for {self.task}", *rows]

    def document(self) -> dict[str, Any]:
        findings = [asdict(finding) for finding in self.findings]
        return {"model": self.name, "task": self.task, "possible": self.possible, "findings": findings}
