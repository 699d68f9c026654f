"""An exported model against its export.json: files, what export.json says, graphs, and PyTorch if asked for."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...basics.choices import LANGUAGE_MODELS, Task
from ...basics.errors import InputError
from ...basics.reading import file_sha256
from ...inference.exported import LOW_PRECISION, MANIFEST, ExportedModel, load_exported
from ...library.again import Logits, Reference
from ...text.tokenizer import load_tokenizer
from .checks import Check, Verification, named
from .graphs import (
    Computed,
    check_close,
    check_equal,
    check_form,
    check_heads,
    check_token_logprobs,
    compute,
    export_again,
    graphs,
    masked_sentences,
    text_pairs,
)
from .reference import ExportedReference, each, torch_reference

_PAIR_LENGTH = 128
_TOKENS_OF = 5  # sentences of which the log-probabilities of all tokens are checked
_LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")  # as families call it


def verify_model(reference: Path, sample: int, seed: int, torch: str | None) -> Verification:
    """Verify an exported model; its graphs are compared on `sample` sentences, and on strings of random tokens.

    A `sample` of 0 compares none. A folder that is no exported model, or another checkpoint, is an `InputError`.
    """
    exported = any_model(reference)
    checks = [*_files(exported), *_manifest(exported)]
    if not any(check.is_damage for check in checks):
        names = graphs(exported)
        checks += [check_form(exported, exported.folder / name) for name in names]
        if sample and not any(check.is_damage for check in checks):
            other = None if torch is None else torch_reference(torch, exported)
            compared = _masked if exported.task in LANGUAGE_MODELS else _classified
            checks += compared(exported, sample, seed, other)
    extra = _without_digest(exported)
    notes = [f"{exported.folder}: export.json has no digest of {', '.join(extra)}"] if extra else []
    return Verification(exported.folder, "model", exported.name, checks, notes)


def any_model(reference: str | Path) -> ExportedModel:
    """An exported model, whatever its task; a folder that is none is an `InputError`."""
    try:
        return load_exported(reference)  # a language model
    except InputError:
        for task in (Task.TEXT_CLASSIFICATION, Task.TOKEN_CLASSIFICATION):
            with suppress(InputError):
                return load_exported(reference, task=task)
        raise


def _files(exported: ExportedModel) -> Iterator[Check]:
    what = "the file is as it was written"
    yield Check(MANIFEST, what, 1, "files")  # it was read, so it has the digest that it should have
    for name, digest in exported.info["files"].items():
        check = Check(name, what, 1, "files")
        if file_sha256(exported.folder / name) != digest:
            check = check.damaged("its sha256 is not that in export.json", export_again(exported))
        yield check


def _without_digest(exported: ExportedModel) -> list[str]:
    known = {MANIFEST, *exported.info["files"]}
    names = [path.name for path in sorted(exported.folder.iterdir())]
    return [name for name in names if name not in known and not name.startswith(".")]  # caches begin with a dot


def _manifest(exported: ExportedModel) -> Iterator[Check]:
    """What export.json says against the tokenizer and the configuration."""
    tokenizer = load_tokenizer(exported.folder)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    masked = exported.task == Task.FILL_MASK
    wrong = []
    if exported.task in LANGUAGE_MODELS and largest >= exported.vocab_size:
        wrong.append(f"vocab_size is {exported.vocab_size:,}, but a token has the id {largest:,}")
    if masked and tokenizer.token_to_id(exported.mask_token) is None:
        wrong.append(f"mask_token is {exported.mask_token!r}, which the tokenizer does not have")
    yield _concluded(exported, "agrees with tokenizer.json", 2, wrong)
    path = exported.folder / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        yield Check(MANIFEST, "agrees with config.json").skipped(f"{path} cannot be read")
        return
    facts = dict(_facts(exported, config))
    wrong = [
        f"{name} is {found!r}, config.json says {right!r}" for name, (found, right) in facts.items() if found != right
    ]
    yield _concluded(exported, "agrees with config.json", len(facts), wrong)


def _facts(exported: ExportedModel, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Field of export.json → its value, and the value that follows from config.json."""
    info = exported.info
    yield "family", (exported.family, config.get("model_type"))
    if exported.task in LANGUAGE_MODELS:
        yield "vocab_size", (exported.vocab_size, config.get("vocab_size", exported.vocab_size))
    else:
        labels = [config["id2label"][key] for key in sorted(config.get("id2label", {}), key=int)]
        yield "labels", (info.get("labels"), labels or info.get("labels"))
    if "pad_token_id" in config and not exported.is_causal:
        yield "padding_id", (exported.padding_id, config["pad_token_id"])
    longest = next((config[name] for name in _LONGEST if config.get(name)), 512)
    if exported.is_causal:  # where its layers attend to a window of tokens, it takes no longer texts
        longest = min(longest, config.get("sliding_window") or longest)
    # Some families lose the first positions to the padding token: their sentences are a little shorter.
    first = longest - exported.max_length
    lost = {0, 2, 1 + (exported.padding_id or 0)}
    yield "max_length", (exported.max_length, exported.max_length if first in lost else longest)
    for name, key in (("layers", "num_hidden_layers"), ("hidden_size", "hidden_size")):
        if name in info and key in config:
            yield name, (info[name], config[key])


def _concluded(exported: ExportedModel, what: str, n: int, wrong: list[str]) -> Check:
    check = Check(MANIFEST, what, n, "fields")
    return check.damaged(named(wrong), export_again(exported)) if wrong else check


def _masked(exported: ExportedModel, sample: int, seed: int, torch: Reference | None) -> Iterator[Check]:
    """The graphs of a language model against each other, and against PyTorch."""
    asked = masked_sentences(exported, sample, seed)
    first, *others = graphs(exported)
    reference = compute(exported.folder / first, asked)
    yield check_heads(exported, first, reference, asked)
    for name in others:
        found = compute(exported.folder / name, asked)
        yield check_heads(exported, name, found, asked)
        if name in LOW_PRECISION.values():
            yield check_close(exported, name, found, reference)
        else:
            yield check_equal(exported, name, first, _logits(found), _logits(reference))
    if exported.is_causal:
        yield check_token_logprobs(exported, [sentence for sentence in asked if sentence.text][:_TOKENS_OF])
    if torch is not None:
        texts = [sentence.text for sentence in asked if sentence.text]
        right = each(texts, torch.masked, torch.at_once)
        own = [one.logits for one, sentence in zip(reference, asked, strict=True) if sentence.text]
        yield check_equal(exported, first, torch.name, own, right)


def _logits(found: list[Computed]) -> list[Logits]:
    return [own.logits for own in found]


def _classified(exported: ExportedModel, sample: int, seed: int, torch: Reference | None) -> Iterator[Check]:
    """A classifier has one graph; that of pairs is compared with PyTorch."""
    check = Check(exported.graph.name, "equal to PyTorch within rounding")
    if exported.task == Task.TOKEN_CLASSIFICATION:
        yield check.skipped("its labels were compared with PyTorch when it was exported")
    elif torch is None:
        yield check.skipped("give --torch CHECKPOINT")
    else:
        longest = min(_PAIR_LENGTH, exported.max_length)
        texts = text_pairs(sample, seed)
        own, right = (
            each(texts, lambda pair, asked=asked: asked.pair(*pair, longest), asked.at_once)  # type: ignore[misc]
            for asked in (ExportedReference(exported), torch)
        )
        yield check_equal(exported, exported.graph.name, torch.name, own, right)
