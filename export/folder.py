"""The folder of an export: found up to date, or built beside the target and renamed into place, whole or not at all."""

import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from ..engine.errors import InputError
from ..engine.inference.exported import load_exported, published_export
from ..engine.runs.atomic import make_folder, unwritable
from .checkpoint import Checkpoint, Head, Source, load, locate
from .quiet import quiet

Say = Callable[[str], None]
Write = Callable[[Checkpoint, Path, Path, dict[str, str], Say], None]


def export_folder(
    reference: str,
    output: Path | None,
    head: Head,
    write: Write,
    *,
    revision: str | None,
    allow_pickle: bool,
    force: bool,
    say: Say,
) -> Path:
    """Export a checkpoint to a folder.

    Args:
        reference: hub id, local folder, or `mini`.
        output: the folder to write; by default `models/NAME`.
        head: what the checkpoint is exported for.
        write: writes the export: checkpoint, the empty folder for it, a folder for intermediate files, what it is made
            from, and whom to tell what happens.
        revision: branch, tag or commit on the hub.
        allow_pickle: read pickled weights where there are no safetensors.
        force: build anew even if the folder is up to date.
        say: is told what happens, a line at a time.

    Returns:
        The folder, which was left alone if it was made from the same checkpoint by the same versions.

    Raises:
        InputError: the model cannot be had or used, or the folder cannot be written.
    """
    source = locate(reference, revision)
    folder = output or Path("models") / source.name
    made_from = _made_from(source)
    if folder.exists():
        existing = published_export(folder)
        if existing is None:
            raise InputError(f"{folder} exists and is no exported model: give another --output, or remove it")
        if existing.get("task", head.task) != head.task:
            raise InputError(f"{folder} was exported for {existing['task']}: give another --output, or remove it")
        if not force and _is_up_to_date(folder, head.task, made_from):
            say(f"{folder} is up to date (--force builds it anew)")
            return folder
    say(f"loading {source.name}")
    make_folder(folder.parent)
    try:
        with quiet(), tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            workspace = Path(temporary)
            staged = workspace / "staged"
            staged.mkdir()
            write(load(source, allow_pickle=allow_pickle, head=head), staged, workspace, made_from, say)
            _publish(staged, folder, workspace)
    except OSError as error:  # a full disk, above all
        raise unwritable(folder, error) from error
    return folder


def _is_up_to_date(folder: Path, task: str, made_from: dict[str, str]) -> bool:
    """Whether an export was made from the same by the same, and is whole."""
    try:
        existing = load_exported(folder, task=task)
        existing.verify_files()
    except InputError:
        return False
    return bool(existing.info["made_from"] == made_from)


def _made_from(source: Source) -> dict[str, str]:
    """What, if it changes, makes an export out of date."""
    packages = ("negengine", "onnxruntime-gpu", "onnxruntime", "optimum-onnx", "transformers", "torch", "onnx")
    return {"revision": source.revision} | {name: found for name in packages if (found := _version(name))}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except ModuleNotFoundError:
        return None


def _publish(staged: Path, folder: Path, workspace: Path) -> None:
    """Put the finished folder in place; an older export goes away only once the new one is there."""
    if folder.exists():
        folder.rename(workspace / "replaced")
    try:
        staged.rename(folder)
    except OSError:
        if (workspace / "replaced").exists():
            (workspace / "replaced").rename(folder)
        raise
    shutil.rmtree(workspace / "replaced", ignore_errors=True)
