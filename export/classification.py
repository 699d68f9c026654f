"""`negengine export --task text-classification`: a sequence-pair classifier becomes a folder that `nli` runs.

    load ─► Optimum ─► simplify ─► fuse ─► hoist ─► parity ─► publish

The same road as for masked language models (`build.py`), with two differences. A family that tells the two texts apart
(BERT) keeps its segments as an input. And the row that the head reads is not the mask's but the first token's: where
the head takes it from the last layer, the gather is hoisted in the same way.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper
from optimum.exporters.onnx import model_configs as _registered  # noqa: F401 - fills the table of families
from optimum.exporters.onnx import onnx_export_from_model
from optimum.exporters.tasks import TasksManager

from ..engine.errors import InputError
from ..engine.inference.classifier import SEGMENTS, TASK
from ..engine.inference.exported import FORMAT, file_sha256
from ..engine.sentences.lexicon import load_lexicon
from .build import OPSET, check_fused
from .checkpoint import CLASSIFIER, Checkpoint
from .flops import count_flops
from .folder import export_folder
from .graph import Graph, attribute, observe, save
from .parity import TOLERANCE, Parity, random_sentences
from .passes.fuse import fuse
from .passes.hoist import hoist
from .passes.simplify import simplify

_TYPICAL_LENGTH = 40  # tokens of a pair of RTE, SNLI or MNLI, roughly
_PAIRS = 24


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair of texts as the model gets it: int32 [L] each."""

    ids: NDArray[np.int32]
    segments: NDArray[np.int32]


def build(
    reference: str,
    output: Path | None = None,
    *,
    revision: str | None = None,
    allow_pickle: bool = False,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Export a sequence-pair classifier to a folder.

    Args:
        reference: hub id, or local folder.
        output: the folder to write; by default `models/NAME`.
        revision: branch, tag or commit on the hub.
        allow_pickle: read pickled weights where there are no safetensors.
        force: build anew even if the folder is up to date.
        say: is told what happens, a line at a time.

    Returns:
        The folder, which was left alone if it was made from the same checkpoint by the same versions.

    Raises:
        InputError: the model cannot be had, is no classifier, or does not survive the parity check.
    """
    return export_folder(
        reference, output, CLASSIFIER, _write, revision=revision, allow_pickle=allow_pickle, force=force, say=say
    )


def _write(
    checkpoint: Checkpoint, staged: Path, workspace: Path, made_from: dict[str, str], say: Callable[[str], None]
) -> None:
    name, tokenizer, config = checkpoint.source.name, checkpoint.tokenizer, checkpoint.model.config
    names = label_names(checkpoint)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(staged)
    config.save_pretrained(staged)
    say(f"exporting {name} ({checkpoint.family}) with Optimum")
    graph = Graph(_optimum_export(checkpoint, workspace / "optimum"))
    takes_segments = SEGMENTS in graph.inputs
    pairs = _text_pairs(checkpoint) + _random_pairs(checkpoint, takes_segments=takes_segments)
    reference = reference_logits(checkpoint, pairs, takes_segments=takes_segments)
    stand_in = _stand_in_for_segments(graph) if takes_segments else ""
    length = min(_TYPICAL_LENGTH, checkpoint.longest)
    plain_flops = count_flops(graph, length)
    simplify(graph, vocabulary=int(config.vocab_size), padding_id=checkpoint.padding_id, longest=checkpoint.longest)
    fused = fuse(graph)
    check_fused(checkpoint, fused)
    hoisted = _hoist_first_token(graph)
    flops = count_flops(graph, length)
    if takes_segments:
        _restore_segments(graph, stand_in)
    _name_axes(graph, len(names))
    files = save(graph.model, staged / "model.onnx")
    say(f"comparing with PyTorch on {len(pairs)} pairs")
    parity = compare(files[0], pairs, reference, name=name)
    say(f"max |Δlogit| {parity.largest_difference:.1e}, top-1 agreement {parity.top1_agreement:.1%}")
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "task": TASK,
        "name": name,
        "family": checkpoint.family,
        "made_from": made_from,
        "labels": list(names),
        "segments": takes_segments,
        "truncation_side": tokenizer.truncation_side,
        "mask_token": tokenizer.mask_token or "",
        "padding_id": checkpoint.padding_id,
        "vocab_size": int(config.vocab_size),
        "max_length": checkpoint.longest,
        "layers": int(config.num_hidden_layers),
        "hidden_size": int(config.hidden_size),
        "fused": asdict(fused),
        "hoisted": hoisted,
        "flops": {"length": length, "optimum": plain_flops, "hoisted": flops},
        "parity": asdict(parity),
        "files": {path.name: file_sha256(path) for path in (*files, staged / "tokenizer.json")},
    }
    (staged / "export.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def label_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The names of a classifier's labels, in the order of its logits.

    Raises:
        InputError: fewer than two labels, several labels at once, or names that do not fit the head.
    """
    config, name = checkpoint.model.config, checkpoint.source.name
    known = {int(index): str(label) for index, label in config.id2label.items()}
    if config.num_labels < 2:
        raise InputError(f"{name} has {config.num_labels} label: it scores pairs, a classifier has two or more labels")
    if config.problem_type == "multi_label_classification":
        raise InputError(f"{name} gives several labels at once (problem_type {config.problem_type}): one is needed")
    if sorted(known) != list(range(config.num_labels)):
        raise InputError(f"{name}: config.json names the labels {sorted(known)}, its head has {config.num_labels}")
    return tuple(known[index] for index in range(config.num_labels))


def _optimum_export(checkpoint: Checkpoint, folder: Path) -> onnx.ModelProto:
    """Optimum's export with `input_ids` and, where the family has them, segments; the attention mask is left out."""
    name, family = checkpoint.source.name, checkpoint.family
    try:
        constructor = TasksManager.get_exporter_config_constructor(
            "onnx", model=checkpoint.model, task=TASK, library_name="transformers"
        )
    except (KeyError, ValueError):
        raise InputError(f"{name}: Optimum has no {TASK} export for the family {family}") from None
    config = constructor(checkpoint.model.config, task=TASK)
    has_segments = (
        SEGMENTS in config.inputs
        and SEGMENTS in checkpoint.tokenizer.model_input_names
        and getattr(checkpoint.model.config, "type_vocab_size", 0) > 1
    )
    axes = {text: {0: "batch", 1: "length"} for text in (("input_ids", SEGMENTS) if has_segments else ("input_ids",))}
    config.__class__ = type("NoMask", (type(config),), {"inputs": property(lambda _: axes)})
    try:
        onnx_export_from_model(
            checkpoint.model,
            folder,
            opset=OPSET,
            task=TASK,
            custom_onnx_configs={"model": config},
            do_validation=False,  # our own parity check is stricter, and comes after the passes
            preprocessors=[],
        )
    except OSError:  # a full disk says nothing about the model
        raise
    except Exception as error:  # noqa: BLE001 - tracing an unsuitable model fails in any way
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"{name}: the family {family} cannot be exported: {line}") from None
    return onnx.load(folder / "model.onnx")


def _stand_in_for_segments(graph: Graph) -> str:
    """Let segments follow from the token ids for a while: the passes know one input only, and must see both segments.

    Returns:
        The tensor that stands in for the input.
    """
    stand_in = graph.add("Mod", ["input_ids", graph.constant(np.array(2, np.int64), "two")], "segments")
    graph.replace_uses(SEGMENTS, stand_in)
    _remove_input(graph, SEGMENTS)
    graph.prune()
    return stand_in


def _restore_segments(graph: Graph, stand_in: str) -> None:
    """Put the input back in the place of its stand-in, int32 like the token ids."""
    graph.model.graph.input.append(helper.make_tensor_value_info(SEGMENTS, TensorProto.INT32, ["batch", "length"]))
    segments = SEGMENTS
    readers = graph.consumers(stand_in)
    if any(node.op_type != "Gather" or node.input[1] != stand_in for node in readers):
        segments = graph.add("Cast", [SEGMENTS], "wide_segments", to=TensorProto.INT64)
    graph.replace_uses(stand_in, segments)
    graph.prune()


def _remove_input(graph: Graph, name: str) -> None:
    kept = [value for value in graph.model.graph.input if value.name != name]
    del graph.model.graph.input[:]
    graph.model.graph.input.extend(kept)


def _hoist_first_token(graph: Graph) -> bool:
    """Where the head reads the first token's row alone, compute the last layer for that row alone."""
    found = next((node for node in graph.nodes if _takes_first_row(graph, node)), None)
    if found is None:
        return False
    rows, first = found.input[0], found.output[0]
    graph.replace_uses(first, hoist(graph, rows, _first_positions(graph)))
    graph.prune()
    return True


def _takes_first_row(graph: Graph, node: onnx.NodeProto) -> bool:
    """True for Gather(rows [B, L, H], 0, axis=1)."""
    if node.op_type != "Gather" or attribute(node, "axis", 0) != 1 or node.input[1] not in graph.constants:
        return False
    if node.input[0] in graph.constants or graph.array(node.input[1]).shape != () or graph.array(node.input[1]) != 0:
        return False
    ids = np.full((2, 5), 7, np.int32)
    return bool(observe(graph.model, {"input_ids": ids}, [node.input[0]])[node.input[0]].shape[:2] == ids.shape)


def _first_positions(graph: Graph) -> str:
    """Zeros, int64 [B, 1]: the first token's position in each pair."""
    zero, one = (graph.constant(np.array([number], np.int64), "number") for number in (0, 1))
    column = graph.add("Slice", ["input_ids", zero, one, one], "first_ids")
    wide = graph.add("Cast", [column], "first_ids_wide", to=TensorProto.INT64)
    return graph.add("Mul", [wide, zero], "first_positions")


def _name_axes(graph: Graph, n_labels: int) -> None:
    """The output's shape, as the engine reads it: one logit a label."""
    del graph.model.graph.output[:]
    graph.model.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", n_labels]))


def _text_pairs(checkpoint: Checkpoint) -> list[Pair]:
    """Pairs of sentences about the bundled names and professions, encoded by transformers itself."""
    lexicon = load_lexicon()
    pairs = []
    for i in range(_PAIRS):
        name = lexicon.names[i * len(lexicon.names) // _PAIRS]
        profession = lexicon.professions[(7 * i) % len(lexicon.professions)]
        verb = lexicon.verbs[(37 * i) % len(lexicon.verbs)]
        text = f"{name} is {profession} who {'likes' if i % 2 else 'does not like'} to {verb}." * (1 + i % 3)
        encoding = checkpoint.tokenizer(text, f"{name} {'likes' if i % 3 else 'never liked'} to {verb}, after all.")
        ids = np.array(encoding["input_ids"][: checkpoint.longest], np.int32)
        segments = encoding.get(SEGMENTS, [0] * len(ids))
        pairs.append(Pair(ids, np.array(segments[: len(ids)], np.int32)))
    return pairs


def _random_pairs(checkpoint: Checkpoint, *, takes_segments: bool) -> list[Pair]:
    """Strings of random tokens from the shortest to the longest that the model takes, the second half a second text."""
    vocabulary, special = int(checkpoint.model.config.vocab_size), checkpoint.tokenizer.all_special_ids
    ordinary = sorted(set(range(vocabulary)) - {checkpoint.padding_id, *special})
    sentences = random_sentences(ordinary, ordinary[0], checkpoint.longest)
    return [
        Pair(sentence.ids, (np.arange(len(sentence.ids)) * 2 >= len(sentence.ids)).astype(np.int32) * takes_segments)
        for sentence in sentences
    ]


def reference_logits(checkpoint: Checkpoint, pairs: Sequence[Pair], *, takes_segments: bool) -> NDArray[np.float32]:
    """PyTorch's logits, one pair at a time: float32 [n, labels]."""
    rows = []
    with torch.inference_mode():
        for pair in pairs:
            inputs = {"input_ids": torch.from_numpy(pair.ids.astype(np.int64))[None]}
            if takes_segments:
                inputs[SEGMENTS] = torch.from_numpy(pair.segments.astype(np.int64))[None]
            rows.append(checkpoint.model(**inputs).logits[0].numpy())
    return np.stack(rows)


def compare(graph: Path, pairs: Sequence[Pair], reference: NDArray[np.float32], *, name: str) -> Parity:
    """Run the exported graph on the CPU and compare it with PyTorch.

    Args:
        graph: the exported model.onnx.
        pairs: what to run.
        reference: PyTorch's logits, float32 [n, labels].
        name: what to call the model in an error.

    Raises:
        InputError: a logit is further off than the tolerance, or a label differs that is no tie.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    inputs = {value.name for value in session.get_inputs()}
    largest, agreed, ties = 0.0, 0, 0
    for pair, wanted in zip(pairs, reference, strict=True):
        feeds = {"input_ids": pair.ids[None], SEGMENTS: pair.segments[None]}
        (logits,) = session.run(["logits"], {key: value for key, value in feeds.items() if key in inputs})[0]
        difference = float(np.abs(logits - wanted).max())
        allowed = TOLERANCE * max(1.0, float(np.abs(wanted).max()))
        if not difference <= allowed:
            raise InputError(
                f"{name}: the exported graph disagrees with PyTorch: |Δlogit| {difference:.2g} where {allowed:.2g} is "
                f"allowed, on a pair of {len(pair.ids)} tokens; this model cannot be used"
            )
        top, found = int(wanted.argmax()), int(logits.argmax())
        if top != found and wanted[top] - wanted[found] > allowed:
            raise InputError(f"{name}: the exported graph disagrees with PyTorch on a label; it cannot be used")
        largest, agreed, ties = max(largest, difference), agreed + (top == found), ties + (top != found)
    return Parity(len(pairs), largest, agreed / len(pairs), ties)
