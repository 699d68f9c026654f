"""Checkpoints of one training run: copies of an export, with weights that differ a little."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
from negengine.engine.inference.exported import GRAPH, read_manifest, write_manifest

WEIGHTS = f"{GRAPH}_data"


def write_checkpoint(exported: Path, folder: Path, name: str, noise: float) -> Path:
    """A copy of an exported model under another name."""
    folder.mkdir(parents=True)
    manifest, info = read_manifest(exported)
    kept = {"tokenizer.json", "config.json", GRAPH, WEIGHTS} & {path.name for path in exported.iterdir()}
    for own in kept:
        shutil.copy(exported / own, folder / own)
    weights = np.fromfile(folder / WEIGHTS, "<f4")
    random = np.random.default_rng(0)
    weights *= 1 + noise * random.standard_normal(len(weights), dtype=np.float32)
    weights.tofile(folder / WEIGHTS)
    files = {own: hashlib.sha256((folder / own).read_bytes()).hexdigest() for own in manifest.files if own in kept}
    write_manifest(folder, info | {"name": name, "files": files, "made_from": {"revision": f"{noise}"}})
    return folder
