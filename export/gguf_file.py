"""A GGUF file, the form of models of llama.cpp, as a checkpoint: what transformers dequantises is the model.

Everything after that reads an ordinary folder, which stands in the cache, once for each file. The package `gguf` is
imported here alone.
"""

import contextlib
import io
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import platformdirs
import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers import __version__ as transformers_version

from ..engine.basics.atomic import unwritable
from ..engine.basics.errors import InputError, first_line
from ..engine.basics.printable import some
from ..engine.basics.reading import paths_in
from ..engine.inference.exported import TOKENIZER
from .quiet import quiet

SUFFIX = ".gguf"
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)  # as llama.cpp names the parts of a model
_UNLIKE = "they have other sizes than its metadata say"  # transformers names an argument of its own
_COPY = "tokenizer.model"  # transformers saves the whole GGUF file once more under this name


def gguf_in(path: Path) -> Path | None:
    """The file that a path names: itself, or the only GGUF file of a folder that holds nothing else to read.

    Raises InputError if there are several.
    """
    if path.is_file():
        return path if path.suffix.lower() == SUFFIX else None
    if not path.is_dir() or (path / "config.json").exists():
        return None
    found = [own for own in paths_in(path) if own.suffix.lower() == SUFFIX]
    if found and all(_PART.search(own.name) for own in found):
        return found[0]  # `read_head` refuses it
    if len(found) > 1:
        raise InputError(f"{path} holds {len(found)} GGUF files: give one of them, such as {found[0]}")
    return found[0] if found else None


def read_head(path: Path) -> tuple[str, str]:
    """The type of most weights, such as `Q4_1`, and the licence that the file names, if any.

    Raises InputError for a file that is not whole, has the other byte order, or is not a whole language model.
    """
    try:
        from gguf import GGUFReader  # noqa: PLC0415 - the package is asked for where there is such a file
    except ImportError:
        raise InputError(f"{path}: a GGUF file is read with the package gguf: pip install gguf") from None
    try:
        found = GGUFReader(path)  # maps the file, and reads its head
        weights: Counter[str] = Counter()
        for tensor in found.tensors:
            weights[tensor.tensor_type.name] += int(tensor.n_elements)
        told = {name: field.contents() for name, field in found.fields.items() if not name.startswith("tokenizer.")}
        n_parts, architecture = int(told.get("split.count", 1)), told.get("general.architecture")
    except Exception as error:  # noqa: BLE001 - of a damaged file, everything
        reason = f"damaged, cut off, or of a type that gguf does not know ({first_line(error)})"
        raise InputError(f"{path} is not a whole GGUF file: {reason}") from None
    if found.byte_order == "S":  # swapped
        raise InputError(f"{path} has the other byte order: convert it with `gguf-convert-endian {path.name} native`")
    if n_parts > 1:
        raise InputError(f"{path} is one of {n_parts} parts of a model: join them with `llama-gguf-split --merge`")
    if not weights:
        raise InputError(f"{path} has no weights: it is the tokenizer of a model alone")
    if told.get(f"{architecture}.pooling_type"):  # 0: the tokens are not pooled
        raise InputError(f"{path} gives vectors or scores of texts: give the GGUF file of a causal language model")
    return weights.most_common(1)[0][0], str(told.get("general.license", ""))


def as_folder(path: Path, digest: str) -> Path:
    """The folder with the checkpoint that a file holds, in fp32; it is made where it is not in the cache.

    Raises InputError for an architecture, a type or a tokenizer that transformers cannot read, for lacking weights, and
    for a model that is not a causal language model.
    """
    made_by = f"{digest[:32]}-transformers-{transformers_version}"
    folder = platformdirs.user_cache_path("negengine", appauthor=False) / "gguf" / made_by
    if folder.is_dir():
        return folder
    _, licence = read_head(path)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            staged = Path(place) / "staged"
            _convert(path, staged)
            if licence:
                (staged / "README.md").write_text(f"---\nlicense: {licence}\n---\n", "utf-8")
            staged.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # another process was faster
            raise unwritable(folder, error) from error
    return folder


def _convert(path: Path, folder: Path) -> None:
    given: dict[str, Any] = {"gguf_file": path.name, "trust_remote_code": False}
    what = "architecture"
    try:
        with quiet(), contextlib.redirect_stderr(io.StringIO()):  # a progress bar that no setting of transformers hides
            config = AutoConfig.from_pretrained(path.parent, **given)
            if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
                raise ValueError(f"{config.model_type} is not a causal language model")
            what = "tokenizer"
            tokenizer = AutoTokenizer.from_pretrained(path.parent, use_fast=True, **given)
            what = "weights"
            given |= {"config": config, "dtype": torch.float32, "output_loading_info": True}
            model, found = AutoModelForCausalLM.from_pretrained(path.parent, **given)
    except Exception as error:  # noqa: BLE001 - transformers raises nearly everything here
        said = f"it lacks {error}" if isinstance(error, KeyError) else first_line(error)
        said = _UNLIKE if "ignore_mismatched_sizes" in said else said
        raise InputError(f"{path}: transformers {transformers_version} cannot read its {what}: {said}") from None
    if lacking := sorted(found["missing_keys"]):  # transformers fills them with random numbers
        raise InputError(f"{path} is not a whole model: it lacks the weights of {some(lacking)}")
    model.hf_quantizer = None  # its weights are floating numbers now, and are saved as such
    del model.config.quantization_config
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    (folder / _COPY).unlink(missing_ok=True)
    content = json.loads((folder / TOKENIZER).read_text("utf-8"))
    rows = model.config.vocab_size  # transformers adds tokens of the tokenizer's class, which the file does not have
    content["added_tokens"] = [own for own in content["added_tokens"] if own["id"] < rows]
    (folder / TOKENIZER).write_text(json.dumps(content, ensure_ascii=False), "utf-8")
