"""`negengine export`: make a folder that the engine runs from a checkpoint; a failed export leaves nothing behind.

load ─► PyTorch's logits ─► trace ─► passes ─► variants (CPU, int8, fp16) ─► parity ─► publish
"""

import gc
import os
import re
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..engine.basics.atomic import make_folder, unwritable
from ..engine.basics.choices import Precision
from ..engine.basics.errors import InputError
from ..engine.basics.numerals import percent
from ..engine.basics.paths import is_model_name
from ..engine.basics.reading import digests, refuse_few_open_files
from ..engine.basics.versions import source_commit, versions
from ..engine.inference.exported import (
    ADDED_BOS,
    FORMAT,
    GRAPH,
    GRAPHS,
    INT8,
    LOW_GRAPHS,
    MANIFEST,
    MERGED,
    SHARING_PREFIXES,
    TOKENIZER,
    TREES,
    VOCABULARY,
    Origin,
    exported_names,
    load_exported,
    models_folder,
    read_manifest,
    read_origin,
    write_manifest,
)
from ..engine.inference.session import give_back_freed_memory, map_weights_apart
from . import needs
from .checkpoint import Checkpoint, about_own_code, load, load_config
from .checkpoint_files import licence_of, training_of
from .drawn import drawn
from .families import has_standard_attention
from .folder import STAGED, publish, remove_left, workspace_beside
from .graph import Graph
from .inventory import Inventory, load_counted, load_model
from .observe import channel_peaks, count_flops
from .parity import DisagreesError, Parity, Reference, compare, reference_of
from .parity_shared import compare_prefixes, compare_trees
from .passes.context import Context, run_passes
from .passes.share_prefix import SHARES_PREFIXES
from .quiet import quiet
from .samples import USUAL, batches, whole
from .source import Say, Source, locate
from .tasks import TEXT_CLASSIFICATION, Task, begin_with_bos, task_named, task_of
from .trace import Exporter, exporter_of, takes_segments
from .worth import predicted_speed

_PACKAGES = (
    *("negengine", "onnxruntime-gpu", "onnxruntime"),
    *("optimum-onnx-naf", "transformers", "torch", "onnxscript", "onnx", "onnx-ir"),
)
_WEIGHTS = "_data"
_ASKED = (Precision.FP32, Precision.AUTO, Precision.MIXED)  # each makes all graphs of the one before, and perhaps more


def build(
    reference: str,
    output: Path | None = None,
    *,
    task: str | None = None,
    bos: bool = False,
    base: str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    precision: str = Precision.AUTO,
    force: bool = False,
    say: Say = lambda _: None,
) -> Path:
    """Export a checkpoint to a folder, by default `models/NAME` or `models/NAME-bos`; returns the folder.

    Without `force`, a folder that the same versions made from the same checkpoint is not touched, and the export of
    another checkpoint is not replaced. An export of the same checkpoint under another name gives its files. With the
    precision fp32, no int8 and fp16 graphs are made; by default an int8 graph is kept where mixed precision would not
    be slower with it, and with the precision mixed in any case.

    Raises InputError for whatever stands against it.
    """
    named = task_named(task) if task else None
    refuse_few_open_files()
    source = locate(reference, revision, say, base)
    if not is_model_name(source.name):  # it names folders: models/NAME, runs/NAME
        raise InputError(f"{source.name!r} is not a name for a model: rename the checkpoint's folder")
    config = load_config(source)
    wanted = named or task_of(config)
    if precision == Precision.FP32:
        exact = tuple(own for own in wanted.variants if not {own.file, own.source} & {*LOW_GRAPHS})
        wanted = replace(wanted, variants=exact)
    if told := about_own_code(config):
        say(f"{source.name}: {told}")
    if bos and not wanted.head.is_decoder:
        raise InputError(f"--bos is for causal models; {source.name} is exported for {wanted.head.task}")
    folder = output or models_folder() / f"{source.name}{'-bos' if bos else ''}"
    # The versions and digests that an up-to-date export must have.
    made_from = {"revision": source.identity} | versions(_PACKAGES)
    made_from |= {"gguf": source.gguf} if source.gguf else {}
    made_from |= {GRAPHS: str(precision)} if precision != Precision.AUTO else {}
    made_from |= ({ADDED_BOS: "added"} if bos else {}) | ({MERGED: source.base} if source.base else {})
    remove_left(folder)
    if _is_up_to_date(folder, wanted.head.task, source, made_from, force=force):
        say(f"{folder} is up to date (--force builds it again)")
        return folder
    if not force and (twin := _twin(wanted.head.task, made_from)) is not None:
        make_folder(folder.parent)
        with workspace_beside(folder) as workspace:
            _link(twin, workspace / STAGED, source)
            publish(workspace, folder)
        say(f"{folder} has the files of {twin}, an export of the same checkpoint (--force builds it again)")
        return folder
    needed = needs.estimate(source, 1 + sum(variant.size for variant in wanted.variants))
    if needed is None:
        say(f"{source.name}: the size of its weights is not known, so memory and disk are not checked")
    else:
        say(f"{source.name} {needed}")
        needed.check(f"{source.name}: exporting it", folder.parent)
    make_folder(folder.parent)
    try:
        with quiet(say), workspace_beside(folder) as workspace:
            _write(source, wanted, workspace, made_from, allow_pickle=allow_pickle, say=say)
            publish(workspace, folder)
    except OSError as error:  # a full disk, above all
        raise unwritable(folder, error) from error
    return folder


@dataclass(frozen=True)
class _Traced:
    graph: Graph
    reference: Reference
    parameters: int
    inventory: Inventory


@dataclass
class _Graphs:
    files: list[Path]  # of the graphs that stay, and of their weights
    exact: list[Path]  # the graphs in fp32
    told: dict[str, Any]  # by the passes
    low: dict[str, Any] = field(default_factory=dict)  # graph of low precision → how far it is from PyTorch
    left_out: dict[str, str] = field(default_factory=dict)  # such a graph → why it does not stay


def _write(
    source: Source, task: Task, workspace: Path, made_from: dict[str, str], *, allow_pickle: bool, say: Say
) -> None:
    staged = workspace / STAGED
    say(f"loading {source.name}")
    checkpoint = load(source, task.head)
    exporter = exporter_of(source.name, checkpoint.config, task.head.task)
    checkpoint.refuse_unsuitable_tokens()
    task.check(checkpoint)
    if (limit := needs.longest_that_fits(checkpoint)) < checkpoint.longest:
        say(f"memory suffices to compare inputs of {limit:,} tokens: longer ones will be refused")
        checkpoint = replace(checkpoint, limit=limit)
    if ADDED_BOS in made_from:
        begin_with_bos(checkpoint.tokenizer, checkpoint.name)
    traced = _trace(checkpoint, task, exporter, workspace, allow_pickle=allow_pickle, say=say)
    gc.collect()  # PyTorch's model is held by cycles
    give_back_freed_memory()
    graph, config = traced.graph, checkpoint.config
    context = Context(
        vocabulary=checkpoint.vocabulary,
        padding_id=checkpoint.padding_id,
        longest=checkpoint.compared_lengths[-1],
        has_compared_all=checkpoint.compared_lengths[-1] == checkpoint.longest,
        layers=int(config.num_hidden_layers),
        labels=int(config.num_labels),
        standard_attention=has_standard_attention(config),
        family=config.model_type,
    )
    say("simplifying the graph")
    length = min(task.length, checkpoint.longest)
    plain_flops = count_flops(graph, length)
    told = run_passes(task.passes, graph, context)
    flops = count_flops(graph, length)
    say(f"an input of {length} tokens needs {flops / 1e9:.2f} GFLOP (before: {plain_flops / 1e9:.2f})")
    found = _Graphs(graph.save(staged / GRAPH), [staged / GRAPH], told)
    samples = traced.reference.samples
    if any(variant.file in LOW_GRAPHS for variant in task.variants):
        usual = [number for number in whole(samples) if len(samples[number].ids) <= USUAL]
        say(f"measuring how large values become on {len(usual)} inputs")
        context = replace(context, peaks=channel_peaks(graph, [batch.feeds for batch in batches(samples, usual)]))
    is_wanted = made_from.get(GRAPHS) == Precision.MIXED
    _add_variants(found, task, context, traced.reference, say, is_wanted=is_wanted)
    parity = [_compared(path, traced.reference, say, is_exact=True) for path in found.exact]
    if task.head.is_decoder:
        _drop_wrong_sharing(found, traced.reference, say)
    manifest = _manifest(checkpoint, task, made_from) | told
    manifest |= {
        "parameters": traced.parameters,
        "inventory": traced.inventory.digest,
        "exporter": exporter.title,
        "licence": licence_of(source),
        "source": source_commit(),
        "flops": {"length": length, "optimum": plain_flops, "hoisted": flops},
        "parity": asdict(max(parity, key=lambda own: own.largest_difference)),
        "compared_lengths": sorted({len(samples[number].ids) for number in whole(samples)}),
        "low_precision": found.low,
        "left_out": found.left_out,
    }
    every = digests(staged)
    manifest["files"] = {path.name: every.pop(path.name) for path in (*found.files, staged / TOKENIZER)}
    manifest["further_files"] = every
    write_manifest(staged, manifest)


def _trace(
    checkpoint: Checkpoint, task: Task, exporter: Exporter, workspace: Path, *, allow_pickle: bool, say: Say
) -> _Traced:
    """Everything that needs PyTorch: its model can be released after this."""
    name, tokenizer, staged = checkpoint.name, checkpoint.tokenizer, workspace / STAGED
    model, inventory = load_counted(checkpoint, task.head, allow_pickle=allow_pickle)
    for line in inventory.lines():
        say(f"{name}: {line}")
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    try:
        tokenizer.save_pretrained(staged)
    except Exception as error:  # of a full disk, its library says the number in its text
        if (found := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(staged / TOKENIZER)) from error
    model.config.save_pretrained(staged)
    segments = task.head is TEXT_CLASSIFICATION.head and takes_segments(exporter, model, tokenizer.model_input_names)
    samples = [*task.samples(checkpoint, segments)]
    if task.head.is_language_model and any(variant.file in LOW_GRAPHS for variant in task.variants):
        say("drawing texts from the model, to measure on them what low precision is worth")
        samples += drawn(model, checkpoint)
    say(f"running PyTorch on {len(samples)} inputs, for the comparison at the end")
    reference = reference_of(
        model, samples, name,
        lambda: load_model(checkpoint, task.head, allow_pickle=allow_pickle),
        list(tokenizer.get_vocab().values()) if task.head.is_language_model else None,
        is_causal=task.head.is_decoder, longest=checkpoint.longest,
    )  # fmt: skip
    give_back_freed_memory()
    map_weights_apart()  # not before: PyTorch would fetch all that lies between its operators from the system
    parameters = int(model.num_parameters())  # shared ones once
    say(f"exporting {name} ({checkpoint.config.model_type}) with {exporter.title}")
    inputs = ["input_ids", *(["token_type_ids"] if segments else [])]
    graph = exporter.trace(model, inputs, staged / (GRAPH + _WEIGHTS), workspace, name)
    return _Traced(graph, reference, parameters, inventory)


def _add_variants(
    found: _Graphs, task: Task, context: Context, reference: Reference, say: Say, *, is_wanted: bool
) -> None:
    staged = found.exact[0].parent
    for variant in task.variants:
        if (variant.if_said and not found.told[variant.if_said]) or variant.source in found.left_out:
            continue
        say(variant.what)
        weights = staged / ((variant.file if variant.size else variant.source) + _WEIGHTS)
        if not weights.exists() and not variant.size:
            weights = staged / (GRAPH + _WEIGHTS)
        further = Graph.open(staged / variant.source, weights, reference.name)
        found.told |= run_passes(variant.passes, further, context)
        made = [path for path in further.save(staged / variant.file) if path not in found.files]
        if variant.file in LOW_GRAPHS:
            measured = _measured(made[0], reference, say, is_wanted=is_wanted)
            if isinstance(measured, str):
                say(f"{variant.file} is left out: {measured}")
                found.left_out[variant.file] = measured
                for path in made:
                    path.unlink()
                continue
            found.low[variant.file] = asdict(measured)
        found.files += made
        found.exact += made[:1] if variant.is_exact else []


def _compared(graph: Path, reference: Reference, say: Say, *, is_exact: bool) -> Parity:
    say(f"comparing {graph.name} with PyTorch")
    vocabulary = graph.with_name(VOCABULARY) if reference.tokens and is_exact else None
    found = compare(graph, reference, is_exact=is_exact, vocabulary=vocabulary)
    close = "" if found.close_calls is None else f", {percent(found.close_calls)} % close calls"
    agreement = f"top-1 agreement {percent(found.top1_agreement)} %{close}, on {found.samples} inputs"
    say(f"max |Δlogit| {found.largest_difference:.1e}, {agreement}")
    return found


def _measured(graph: Path, reference: Reference, say: Say, *, is_wanted: bool) -> Parity | str:
    """A graph of low precision beside PyTorch; or why it is left out, and runs are in fp32.

    It stays if all its logits are numbers, its decisions follow from them, and, unless an int8 graph is wanted, mixed
    precision is not slower with it than fp32.
    """
    try:
        found = _compared(graph, reference, say, is_exact=False)
    except DisagreesError as error:  # and no other: a disk that fails once must not change an export
        return str(error)
    speed = predicted_speed(found.close_calls or 0)
    if graph.name != INT8 or is_wanted or speed >= 1:
        return found
    return f"with it, mixed precision would be {speed:.2f} times as fast as fp32 (--precision mixed keeps it)"


def _drop_wrong_sharing(found: _Graphs, reference: Reference, say: Say) -> None:
    """Remove the graphs that share beginnings if one of them disagrees with PyTorch: they only save time."""
    sharing = [path for path in found.files if path.name in {*SHARING_PREFIXES.values(), *TREES.values()}]
    exact = {SHARING_PREFIXES[path.name] for path in found.exact}
    try:
        for path in sharing:
            if path.name in TREES.values():
                compare_trees(path, path.with_name(VOCABULARY), reference)
            elif path.name in exact:
                compare_prefixes(path, reference)
    except InputError as error:
        say(f"beginnings of sentences are not shared: {error}")
        for path in sharing:
            path.unlink()
            found.files.remove(path)
        found.told[SHARES_PREFIXES] = False


def _manifest(checkpoint: Checkpoint, task: Task, made_from: dict[str, str]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "task": task.head.task,
        "name": checkpoint.name,
        "family": checkpoint.config.model_type,
        "origin": checkpoint.source.origin,
        "made_from": made_from,
        "mask_token": checkpoint.tokenizer.mask_token or "",
        "padding_id": checkpoint.padding_id,
        "vocab_size": checkpoint.vocabulary,
        "max_length": checkpoint.longest,
        "layers": int(checkpoint.config.num_hidden_layers),
        "hidden_size": int(checkpoint.config.hidden_size),
        **task.metadata(checkpoint),
        **training_of(checkpoint.source),
    }


def _is_up_to_date(folder: Path, task: str, source: Source, made_from: dict[str, str], *, force: bool) -> bool:
    """Whether a folder holds this export already. Refuses to replace anything but an older state of it."""
    if not folder.exists():
        return False
    existing = read_origin(folder)
    if existing is None and not (folder / MANIFEST).is_file():
        raise InputError(f"{folder} exists and is not an exported model: give another --output, or remove it")
    if existing is None and not force:
        raise InputError(f"{folder / MANIFEST} is damaged or was edited: export the model again with --force")
    if existing is not None and existing.task not in {"", task}:
        raise InputError(f"{folder} was exported for {existing.task}: give another --output, or remove it")
    if existing is None or force:
        return False
    if existing.origin not in {"", source.origin} and existing.made_from.get("revision") != source.identity:
        raise InputError(
            f"{folder} is the export of another checkpoint, {existing.origin}: give another --output, --force to "
            "replace it, or the checkpoint's folder another name"
        )
    return _holds(folder, existing, task, made_from)


def _holds(folder: Path, existing: Origin, task: str, made_from: dict[str, str]) -> bool:
    """Whether an export is whole, and has what one that is made from this would have."""
    wanted, there = (_ASKED.index(own.get(GRAPHS, Precision.AUTO)) for own in (made_from, existing.made_from))
    if wanted > there or made_from | {GRAPHS: ""} != existing.made_from | {GRAPHS: ""}:
        return False
    try:
        load_exported(folder, task=task).verify_files()
    except InputError:
        return False
    return True


def _twin(task: str, made_from: dict[str, str]) -> Path | None:
    """An export of the same checkpoint by the same versions, under whatever name."""
    for folder in (models_folder() / name for name in exported_names()):
        if (existing := read_origin(folder)) is not None and _holds(folder, existing, task, made_from):
            return folder
    return None


def _link(twin: Path, staged: Path, source: Source) -> None:
    """The files of an export in a second folder, on the disk once where the file system can; with a name of its own."""
    manifest, info = read_manifest(twin)
    for name in (*manifest.files, *manifest.further_files):
        try:
            (staged / name).hardlink_to(twin / name)
        except OSError:
            shutil.copyfile(twin / name, staged / name)
    write_manifest(staged, info | {"name": source.name, "origin": source.origin})
