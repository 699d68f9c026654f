"""Exported folders whose graph nothing opens."""

import hashlib
from pathlib import Path

from negengine.engine.inference.exported import FORMAT, write_manifest


def write_fake_export(folder: Path, tokenizer: str, **changes) -> Path:
    """A folder as `negengine export` writes it, with a real tokenizer (its JSON) and without a graph."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"model.onnx": b"graph", "tokenizer.json": tokenizer.encode()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    info = {
        "format": FORMAT,
        "task": "fill-mask",
        "name": folder.name,
        "family": "bert",
        "made_from": {"revision": "1"},
        "mask_token": "[MASK]",
        "padding_id": 0,
        "vocab_size": 200,
        "max_length": 64,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    write_manifest(folder, info | changes)
    return folder
