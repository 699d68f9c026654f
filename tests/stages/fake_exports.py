"""Exported folders: some whose graph nothing opens, and copies with weights that differ a little."""

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
from negengine.engine.inference.exported import FORMAT, GRAPH, read_manifest, write_manifest

WEIGHTS = f"{GRAPH}_data"


def write_fake_export(folder: Path, tokenizer: str, **changes) -> Path:
    """A folder as `negengine export` writes it, with a real tokenizer (its JSON) and without a graph."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"model.onnx": b"graph", "tokenizer.json": tokenizer.encode()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    info = {"format": FORMAT, "task": "fill-mask", "name": folder.name, "family": "bert", "mask_token": "[MASK]"}
    info |= {"made_from": {"revision": "1"}, "padding_id": 0, "vocab_size": 200, "max_length": 64}
    info["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    write_manifest(folder, info | changes)
    return folder


_WRITTEN: dict[tuple[Path, float], Path] = {}  # exported model and noise → a copy


def write_checkpoint(exported: Path, folder: Path, name: str, noise: float) -> Path:
    """A copy of an exported model under another name, as a checkpoint of one training run."""
    folder.mkdir(parents=True)
    manifest, info = read_manifest(exported)
    kept = {"tokenizer.json", "config.json", GRAPH, WEIGHTS} & {path.name for path in exported.iterdir()}
    known = _WRITTEN.setdefault((exported, noise), folder)
    if (known / WEIGHTS).exists():  # weights are large, and tests lie in memory
        for own in kept:
            os.link(known / own, folder / own)
    else:
        for own in kept:
            shutil.copy(exported / own, folder / own)
        weights = np.fromfile(folder / WEIGHTS, "<f4")
        weights *= 1 + noise * np.random.default_rng(0).standard_normal(len(weights), dtype=np.float32)
        weights.tofile(folder / WEIGHTS)
        _WRITTEN[exported, noise] = folder
    files = {own: hashlib.sha256((folder / own).read_bytes()).hexdigest() for own in manifest.files if own in kept}
    write_manifest(folder, info | {"name": name, "files": files, "made_from": {"revision": f"{noise}"}})
    return folder
