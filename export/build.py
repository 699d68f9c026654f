"""`negengine export`: a checkpoint becomes a folder that the engine runs, or nothing is left behind.

    load ─► Optimum ─► simplify ─► fuse ─► hoist ─► decision head ─► parity ─► twins (int8, fp16) ─► publish

Everything is built in a temporary folder beside the target and renamed into place at the end, after the parity check.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from optimum.exporters.onnx import model_configs as _registered  # noqa: F401 - fills the table of families
from optimum.exporters.onnx import onnx_export_from_model
from optimum.exporters.tasks import TasksManager

from ..engine.errors import InputError
from ..engine.inference.exported import CONVOLVED, FORMAT, TWINS, file_sha256
from ..engine.sentences.lexicon import load_lexicon
from ..engine.sentences.patterns import load_patterns
from .checkpoint import MASKED_LM, Checkpoint
from .flops import count_flops
from .folder import export_folder
from .graph import Graph, save, save_sharing
from .parity import Sentence, batches, compare, random_sentences, reference_logits
from .passes.cpu import convolve, use_standard_attention
from .passes.fuse import STANDARD_ATTENTION, Fused, fuse
from .passes.half import half
from .passes.head import add_decision_head, add_mask_position
from .passes.hoist import hoist
from .passes.quantize import quantize
from .passes.simplify import simplify

OPSET = 17  # the first with LayerNormalization; ONNX Runtime's fusions know it well
_TYPICAL_LENGTH = 18  # tokens of a sentence of the main job
_SENTENCES_PER_PATTERN = 20


def build(
    reference: str,
    output: Path | None = None,
    *,
    revision: str | None = None,
    allow_pickle: bool = False,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Export a masked language model to a folder.

    Args:
        reference: hub id, local folder, or `mini`.
        output: the folder to write; by default `models/NAME`.
        revision: branch, tag or commit on the hub.
        allow_pickle: read pickled weights where there are no safetensors.
        force: build anew even if the folder is up to date.
        say: is told what happens, a line at a time.

    Returns:
        The folder, which was left alone if it was made from the same checkpoint by the same versions.

    Raises:
        InputError: the model cannot be had, cannot be used, or does not survive the parity check.
    """
    return export_folder(
        reference, output, MASKED_LM, _write, revision=revision, allow_pickle=allow_pickle, force=force, say=say
    )


def _write(
    checkpoint: Checkpoint, staged: Path, workspace: Path, made_from: dict[str, str], say: Callable[[str], None]
) -> None:
    name, tokenizer = checkpoint.source.name, checkpoint.tokenizer
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(staged)
    checkpoint.model.config.save_pretrained(staged)
    vocabulary = int(checkpoint.model.config.vocab_size)
    # No mask but the one, and no padding: where it stands, PyTorch counts positions anew in some families.
    ordinary = sorted(set(range(vocabulary)) - {tokenizer.mask_token_id, checkpoint.padding_id})
    sentences = _pattern_sentences(checkpoint)
    sentences += random_sentences(ordinary, tokenizer.mask_token_id, checkpoint.longest)
    reference = reference_logits(checkpoint.model, sentences)
    say(f"exporting {name} ({checkpoint.family}) with Optimum")
    graph = Graph(_optimum_export(checkpoint, workspace / "optimum"))
    plain_flops = count_flops(graph, _TYPICAL_LENGTH)
    simplify(graph, vocabulary=vocabulary, padding_id=checkpoint.padding_id, longest=checkpoint.longest)
    fused = fuse(graph)
    check_fused(checkpoint, fused)
    logits = hoist(graph, "logits", add_mask_position(graph))
    add_decision_head(graph, logits)
    files = save(graph.model, staged / "model.onnx", weights_apart=True)
    convolved = graph.copy()
    use_standard_attention(convolved)
    convolve(convolved)
    files += save_sharing(convolved.model, staged / CONVOLVED, files[0])
    flops = count_flops(graph, _TYPICAL_LENGTH)
    say(f"comparing with PyTorch on {len(sentences)} sentences")
    parity = max(
        (compare(path, sentences, reference, name=name) for path in (files[0], staged / CONVOLVED)),
        key=lambda found: found.largest_difference,
    )
    say(
        f"max |Δlogit| {parity.largest_difference:.1e}, top-1 agreement {parity.top1_agreement:.1%}, "
        f"{flops / 1e9:.2f} of {plain_flops / 1e9:.2f} GFLOP a sentence of {_TYPICAL_LENGTH} tokens left"
    )
    say("quantizing to int8")
    observed = batches(sentences)
    files += save(quantize(graph, observed).model, staged / TWINS["cpu"])
    say("converting to fp16")
    halved = half(graph, observed)
    files += save(halved.graph.model, staged / TWINS["cuda"])
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "task": "fill-mask",
        "name": name,
        "family": checkpoint.family,
        "made_from": made_from,
        "mask_token": tokenizer.mask_token,
        "padding_id": checkpoint.padding_id,
        "vocab_size": vocabulary,
        "max_length": checkpoint.longest,
        "layers": int(checkpoint.model.config.num_hidden_layers),
        "hidden_size": int(checkpoint.model.config.hidden_size),
        "intermediate_size": _intermediate_size(checkpoint),
        "fused": asdict(fused),
        "flops": {"length": _TYPICAL_LENGTH, "optimum": plain_flops, "hoisted": flops},
        "parity": asdict(parity),
        "fp16": {"products": halved.products, "kept in fp32": halved.kept},
        "files": {path.name: file_sha256(path) for path in (*files, staged / "tokenizer.json")},
    }
    (staged / "export.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _intermediate_size(checkpoint: Checkpoint) -> int:
    """Width of the feed-forward blocks, under the name that the family gives it."""
    config = checkpoint.model.config
    return int(getattr(config, "intermediate_size", 0) or getattr(config, "hidden_dim", 0))


def _optimum_export(checkpoint: Checkpoint, folder: Path) -> onnx.ModelProto:
    """Optimum's export, with `input_ids` as the only input: masks and segments take their defaults."""
    family = checkpoint.family
    try:
        constructor = TasksManager.get_exporter_config_constructor(
            "onnx", model=checkpoint.model, task="fill-mask", library_name="transformers"
        )
    except (KeyError, ValueError):
        raise InputError(f"{checkpoint.source.name}: Optimum has no fill-mask export for the family {family}") from None
    config = constructor(checkpoint.model.config)
    axes = {"input_ids": {0: "batch", 1: "length"}}
    config.__class__ = type("IdsOnly", (type(config),), {"inputs": property(lambda _: axes)})
    try:
        onnx_export_from_model(
            checkpoint.model,
            folder,
            opset=OPSET,
            task="fill-mask",
            custom_onnx_configs={"model": config},
            do_validation=False,  # our own parity check is stricter, and comes after the passes
            preprocessors=[],
        )
    except OSError:  # a full disk says nothing about the model
        raise
    except Exception as error:  # noqa: BLE001 - tracing an unsuitable model fails in any way
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"{checkpoint.source.name}: the family {family} cannot be exported: {line}") from None
    return onnx.load(folder / "model.onnx")


def check_fused(checkpoint: Checkpoint, fused: Fused) -> None:
    """Fail where a family whose attention has the standard form did not have all of it fused.

    Raises:
        InputError: as said.
    """
    layers = int(checkpoint.model.config.num_hidden_layers)
    if checkpoint.family in STANDARD_ATTENTION and fused.attention != layers:
        raise InputError(
            f"{checkpoint.source.name}: {fused.attention} of {layers} attentions were fused, as this "
            f"{checkpoint.family} differs from the common one; it would be exact, but slow"
        )


def _pattern_sentences(checkpoint: Checkpoint) -> list[Sentence]:
    """Sentences of all bundled patterns, with fillers spread over the lists, encoded by transformers itself."""
    lexicon, tokenizer = load_lexicon(), checkpoint.tokenizer
    sentences = []
    for pattern in load_patterns().all:
        for i in range(_SENTENCES_PER_PATTERN):
            name = i * len(lexicon.names) // _SENTENCES_PER_PATTERN
            fillers = {
                "NAME": lexicon.names[name],
                "PROF": lexicon.professions[(7 * i) % len(lexicon.professions)],
                "ACT": lexicon.verbs[(37 * i) % len(lexicon.verbs)],
                "PRON": "she" if lexicon.genders[name] == "f" else "he",
            }
            ids = np.array(tokenizer(pattern.text(fillers, tokenizer.mask_token))["input_ids"], np.int32)
            (positions,) = np.nonzero(ids == tokenizer.mask_token_id)
            if len(positions) != 1:
                raise InputError(f"{checkpoint.source.name}: its tokenizer does not keep {tokenizer.mask_token} whole")
            sentences.append(Sentence(ids, int(positions[0])))
    return sentences
