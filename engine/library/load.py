"""`ng.load`: find a model, and export it on first use."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..basics.errors import InputError
from ..basics.reading import is_file
from ..inference.exported import MANIFEST
from ..runs.progress import Reporter
from .model import Model, check_opening, find_model
from .verdict import Verdict


def load(
    reference: Model | str | Path = "mini",
    *,
    device: str = "auto",
    precision: str = "auto",
    batch_tokens: int | None = None,
    threads: int | None = None,
    task: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    progress: bool = True,
) -> Model:
    """Find a model. A hub id, a checkpoint or `mini` that is not exported yet is exported first.

    Args:
        reference: An exported folder, its name under `models/`, a hub id, a checkpoint's folder, or `mini`.
        device: `auto`, `cpu`, `cuda`, `cuda:1`; several devices, separated by commas, share the work.
        precision: `auto`, `fp32` or `mixed` (a low-precision model where that is safe).
        batch_tokens: Largest number of tokens in a batch.
        threads: CPU threads.
        task: a `Task`, such as `fill-mask` or `text-generation` (a causal model). By default an export has the
            task that the checkpoint's architecture says, and either kind of language model is found.
        revision: Branch, tag or commit on the hub, for an export.
        allow_pickle: Whether an export may read pickled weights, which can run code.
        progress: Whether to show the steps of an export.

    Returns:
        The model. Its graph is opened when it is used first.

    Raises:
        InputError: The model does not exist or cannot be exported, or the device or the precision does not exist.
    """
    options: dict[str, Any] = {
        "device": device,
        "precision": precision,
        "batch_tokens": batch_tokens,
        "threads": threads,
    }
    check_opening(device, precision)
    if not isinstance(reference, Model) and not is_exported(reference):
        reference = export(str(reference), task=task, revision=revision, allow_pickle=allow_pickle, progress=progress)
    return find_model(reference, task=task, **options)


def is_exported(reference: str | Path) -> bool:
    """Whether a folder, or the folder of this name under `models/`, holds an exported model."""
    return any(is_file(path / MANIFEST) for path in (Path(reference), Path("models") / reference))


def export(
    reference: str = "mini",
    output: str | Path | None = None,
    *,
    task: str | None = None,
    bos: bool = False,
    revision: str | None = None,
    allow_pickle: bool = False,
    force: bool = False,
    progress: bool = True,
) -> Path:
    """Export a checkpoint to ONNX, and return the folder, `models/NAME` by default; `load` does this if it is needed.

    `reference` and `task` are as for `load`. With `bos`, a causal model begins every text with its BOS token, though
    its tokenizer does not. Pickled weights, which `allow_pickle` reads, can run code. `force` builds again what has not
    changed.

    Raises InputError if packages that an export needs are missing, or the checkpoint cannot be exported.
    """
    say = Reporter(silent=not progress).say
    if "torch" not in sys.modules:
        say("loading PyTorch and transformers, which takes some seconds")
    with _needs_packages(reference):
        from ...export.build import build
    folder = None if output is None else Path(output)
    return build(
        reference, folder, task=task, bos=bos, revision=revision, allow_pickle=allow_pickle, force=force, say=say
    )


def check_export(
    reference: str,
    output: str | Path | None = None,
    *,
    task: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
) -> Verdict:
    """Say whether a checkpoint can be exported, and why not, without building.

    Raises InputError if packages that an export needs are missing, or there is no such checkpoint.
    """
    with _needs_packages(reference):
        from ...export.check import check
    folder = None if output is None else Path(output)
    return check(reference, folder, task=task, revision=revision, allow_pickle=allow_pickle)


@contextmanager
def _needs_packages(reference: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(
            f"{reference} is not exported, and export needs {error.name}: run `pip install 'negengine[export]'`, then "
            f"`negengine export {reference}`"
        ) from None
