"""An exported model against its export.json: files, what export.json says, graphs, and PyTorch if asked for."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...basics.choices import LANGUAGE_MODELS, Task
from ...basics.errors import InputError
from ...basics.limits import cpu_threads
from ...basics.numerals import percent
from ...basics.printable import counted, some
from ...basics.reading import file_sha256, is_file
from ...inference.again import NEAR_TIE, ROUNDING, Logits, Reference
from ...inference.audit import disagreement_bound
from ...inference.batches import INPUTS, OUTPUTS, WIDTHS
from ...inference.causal import CausalLM
from ...inference.devices.cpu import CPU
from ...inference.exported import CONVOLVED, LOW_GRAPHS, MANIFEST, MERGED, VOCABULARY, ExportedModel, load_exported
from ...inference.judge import log_softmax
from ...text.lexicon import load_lexicon
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern
from ...text.pattern_files import load_patterns
from ...text.tokenizer import NOT_ONE_TOKEN, load_tokenizer
from .checks import Check, Verification
from .reference import ExportedReference, each, torch_reference

_PAIR_LENGTH = 128
_TOKENS_OF = 5  # sentences of which the log-probabilities of all tokens are checked
_FEWEST_ALIKE = 0.5  # a low-precision graph with the same top-1 in fewer sentences is not a copy of the model
_LENGTHS = (3, 17, 64, 150, 512)
_LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")  # as families call it


def verify_model(reference: Path, sample: int, seed: int, torch: str | None) -> Verification:
    """Verify an exported model; its graphs are compared on `sample` sentences and on strings of random tokens."""
    exported = any_model(reference)
    what = "the file is as it was written"
    checks = [Check(MANIFEST, what, 1, "files")]  # it was read, so it has the digest that it should have
    digests = {**exported.info["files"], **exported.info.get("further_files", {})}
    for name, digest in digests.items():
        if not is_file(exported.folder / name):
            checks.append(_concluded(exported, Check(name, what, 1, "files"), "it is missing"))
            continue
        wrong = "" if file_sha256(exported.folder / name) == digest else "its sha256 is not that in export.json"
        checks.append(_concluded(exported, Check(name, what, 1, "files"), wrong))
    checks += _manifest(exported)
    if not any(check.is_damage for check in checks):
        checks += [check_form(exported, exported.folder / name) for name in graphs(exported)]
        if sample and not any(check.is_damage for check in checks):
            other = None if torch is None else torch_reference(torch, exported)
            compared = _masked if exported.task in LANGUAGE_MODELS else _classified
            checks += compared(exported, sample, seed, other)
    known = {MANIFEST, *digests}
    names = [path.name for path in sorted(exported.folder.iterdir())]
    extra = [name for name in names if name not in known and not name.startswith(".")]  # caches begin with a dot
    notes = (
        [f"{exported.folder}: not looked at, as export.json has no digest of them: {', '.join(extra)}"] if extra else []
    )
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


def _manifest(exported: ExportedModel) -> Iterator[Check]:
    tokenizer = load_tokenizer(exported.folder)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    masked = exported.task == Task.FILL_MASK
    wrong = []
    if exported.task in LANGUAGE_MODELS and largest >= exported.vocab_size:
        wrong.append(f"vocab_size is {exported.vocab_size:,}, but a token has the id {largest:,}")
    if masked and tokenizer.token_to_id(exported.mask_token) is None:
        wrong.append(f"mask_token is {exported.mask_token!r}, which the tokenizer does not have")
    yield _concluded(exported, Check(MANIFEST, "agrees with tokenizer.json", 2, "fields"), some(wrong))
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
    yield _concluded(exported, Check(MANIFEST, "agrees with config.json", len(facts), "fields"), some(wrong))


def _facts(exported: ExportedModel, config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Field of export.json → its value, and the value that follows from config.json."""
    info = exported.info
    yield "family", (exported.family, config.get("model_type"))
    if exported.task in LANGUAGE_MODELS:
        yield "vocab_size", (exported.vocab_size, config.get("vocab_size", exported.vocab_size))
    else:
        labels = [config["id2label"][key] for key in sorted(config.get("id2label", {}), key=int)]
        yield "labels", (info.get("labels"), labels or info.get("labels"))
    if "pad_token_id" in config and exported.padding_id is not None:  # None: the model counts nothing by it
        yield "padding_id", (exported.padding_id, config["pad_token_id"])
    longest = next((config[name] for name in _LONGEST if config.get(name)), 512)
    # It may take less: positions that a padding token takes, windows, little memory at the export.
    yield "max_length", (exported.max_length, min(exported.max_length, longest))
    for name, key in (("layers", "num_hidden_layers"), ("hidden_size", "hidden_size")):
        if name in info and key in config:
            yield name, (info[name], config[key])


def _concluded(exported: ExportedModel, check: Check, wrong: str) -> Check:
    return check.damaged(wrong, export_again(exported)) if wrong else check


def _masked(exported: ExportedModel, sample: int, seed: int, torch: Reference | None) -> Iterator[Check]:
    asked = masked_sentences(exported, sample, seed)
    reference: list[Logits] = []
    for name in graphs(exported):
        found = compute(exported.folder / name, asked)
        yield check_heads(exported, name, found, asked)
        logits = [own.logits for own in found]
        if not reference:
            reference = logits
        else:
            yield _against_reference(exported, name, logits, reference, [sentence.expected for sentence in asked])
    if exported.is_causal:
        yield check_token_logprobs(exported, [sentence for sentence in asked if sentence.text][:_TOKENS_OF])
    if torch is not None:
        right = each([sentence.text for sentence in asked if sentence.text], torch.masked, torch.at_once)
        own = [logits for logits, sentence in zip(reference, asked, strict=True) if sentence.text]
        yield check_equal(exported, exported.graph.name, torch.name, own, right)


def _classified(exported: ExportedModel, sample: int, seed: int, torch: Reference | None) -> Iterator[Check]:
    first, *others = graphs(exported)
    check = Check(first, "equal to PyTorch within rounding")
    if exported.task == Task.TOKEN_CLASSIFICATION:
        yield check.skipped("its labels were compared with PyTorch when it was exported")
        return
    longest = min(_PAIR_LENGTH, exported.max_length)
    whole = [pattern.text(fillers, fillers[VERB]) for pattern, fillers in _filled(sample, seed)]
    texts = [(f"{first}.", second) for first, _, second in (text.partition(". ") for text in whole)]

    def asked(reference: Reference) -> list[Logits]:
        return each(texts, lambda pair: reference.pair(*pair, longest), reference.at_once)

    right = asked(ExportedReference(exported))
    for name in others:
        found = asked(ExportedReference(exported, name))
        yield _against_reference(exported, name, found, right, [int(logits.argmax()) for logits in right])
    if torch is None:
        yield check.skipped("give --torch CHECKPOINT")
    else:
        yield check_equal(exported, first, torch.name, right, asked(torch))


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence as a graph takes it."""

    text: str  # as the tokenizer reads it; empty for a string of random tokens
    ids: NDArray[np.int32]  # int32 [L]; of a causal model, what stands before the mask
    mask: int  # the row that is asked for: the position of the mask; of a causal model, the one before it
    expected: int  # some token, whose logit and rank the graph reports


def masked_sentences(exported: ExportedModel, n: int, seed: int) -> list[Sentence]:
    """N sentences of the bundled patterns, and random tokens of all lengths: a graph can err on long ones alone."""
    tokenizer, found = exported.tokenizer, []
    for pattern, fillers in _filled(n, seed):
        text = pattern.text(fillers, tokenizer.mask_token)
        [ids] = tokenizer.encode_masked([text])
        before, _, after = text.partition(tokenizer.mask_token)
        [token] = tokenizer.word_tokens([(before, after)], [fillers[VERB]]).tolist()
        if len(ids) <= exported.max_length:
            mask = int(np.flatnonzero(ids == tokenizer.mask_id)[0])
            if exported.is_causal:
                ids, mask = ids[:mask], mask - 1
            found.append(Sentence(text, ids, mask, 0 if token == NOT_ONE_TOKEN else token))
    random = np.random.default_rng(seed)
    tokens = np.setdiff1d(np.arange(exported.vocab_size), [tokenizer.mask_id, exported.padding_id or 0])
    longest = max(exported.info.get("compared_lengths") or [exported.max_length])
    for length in sorted({min(length, longest) for length in (*_LENGTHS, longest)} - {1, 2}):
        ids = random.choice(tokens, length).astype(np.int32)
        mask = int(random.integers(length))
        if not exported.is_causal:
            ids[mask] = tokenizer.mask_id
        found.append(Sentence("", ids, mask, int(random.choice(tokens))))
    return found


def _filled(n: int, seed: int) -> Iterator[tuple[Pattern, dict[str, str]]]:
    lexicon, patterns = load_lexicon(), load_patterns().all
    random = np.random.default_rng(seed)
    for number in range(n):
        name = int(random.integers(len(lexicon.names)))
        fillers = {
            NAME: lexicon.names[name],
            PROFESSION: str(random.choice(lexicon.professions)),
            VERB: str(random.choice(lexicon.verbs)),
            PRONOUN: lexicon.pronouns[lexicon.genders[name]],
        }
        yield patterns[number % len(patterns)], fillers


@dataclass(frozen=True, eq=False)
class Computed:
    """What a graph computes for a sentence."""

    logits: Logits  # float32 [V]
    ids: NDArray[np.int32]  # int32 [2], as `Decisions.ids`
    values: NDArray[np.float32]  # float32 [4], as `Decisions.logits`


def compute(graph: Path, asked: Sequence[Sentence]) -> list[Computed]:
    """Run a graph on sentences, one by one; a graph that does not load is an `InputError`."""
    session = CPU.session(graph)

    def one(sentence: Sentence) -> Computed:
        arrays = (sentence.ids[None], np.array([sentence.mask], np.int32), np.array([sentence.expected], np.int32))
        logits, ids, values = session.run(["logits", *OUTPUTS], dict(zip(INPUTS, arrays, strict=True)))
        return Computed(logits[0], ids[0], values[0])

    return each(asked, one, cpu_threads())


def check_form(exported: ExportedModel, graph: Path) -> Check:
    """Whether a graph has the inputs and outputs that the engine uses, of the size that export.json says."""
    check = Check(graph.name, "inputs and outputs are those of export.json", 1, "graphs")
    session = CPU.session(graph)
    inputs = {value.name: value.type for value in session.get_inputs()}
    outputs = {value.name: value.shape[-1] for value in session.get_outputs()}
    masked = exported.task in LANGUAGE_MODELS
    wanted = {"logits": exported.vocab_size if masked else len(exported.info["labels"]), **(WIDTHS if masked else {})}
    wrong = [f"input {name} is missing" for name in (INPUTS if masked else INPUTS[:1]) if name not in inputs]
    wrong += [f"input {name} is {kind}" for name, kind in inputs.items() if kind != "tensor(int32)"]
    wrong += [
        f"output {name} has {outputs.get(name, 'no')} columns, export.json says {size}"
        for name, size in wanted.items()
        if outputs.get(name) != size
    ]
    return _concluded(exported, check, wrong[0] if wrong else "")


def check_heads(exported: ExportedModel, graph: str, found: Sequence[Computed], asked: Sequence[Sentence]) -> Check:
    """Whether the decisions that a graph makes are those of its own logits, by NumPy."""
    wrong = 0
    for own, expected in zip(found, (one.expected for one in asked), strict=True):
        logits = own.logits.astype(np.float64)
        first, second = np.sort(logits)[::-1][:2]
        total = first + np.log(np.exp(logits - first).sum())
        values = np.array([first, second, logits[expected], total])
        rank = 1 + int((own.logits > own.logits[expected]).sum())
        is_close = np.abs(own.values - values).max() <= ROUNDING * max(1.0, np.abs(values).max())
        wrong += not (own.logits[own.ids[0]] == own.logits.max() and own.ids[1] == rank and is_close)
    check = Check(graph, "decisions follow from the logits", len(found), "sentences")
    return _concluded(exported, check, f"not in {counted(wrong, 'sentence')}" if wrong else "")


def _against_reference(
    exported: ExportedModel, graph: str, found: Sequence[Logits], wanted: Sequence[Logits], labels: Sequence[int]
) -> Check:
    """A graph against the reference, within rounding; one of low precision is close in the margins of the labels."""
    if graph not in LOW_GRAPHS:
        return check_equal(exported, graph, exported.graph.name, found, wanted)
    own, right = (
        np.array([logits[label] - np.delete(logits, label).max() for logits, label in zip(side, labels, strict=True)])
        for side in (found, wanted)
    )
    errors = own - right
    share = np.mean([one.argmax() == other.argmax() for one, other in zip(found, wanted, strict=True)])
    said = (
        f"error of the margin: mean {np.mean(errors):+.2g}, standard deviation {np.std(errors):.2g}, largest "
        f"{np.abs(errors).max():.2g} logits; same top-1 in {percent(share)} %"
    )
    check = Check(graph, "close to model.onnx", len(errors), "sentences", detail=said)
    return _concluded(exported, check, "" if np.isfinite(errors).all() and share >= _FEWEST_ALIKE else said)


def check_equal(
    exported: ExportedModel, graph: str, by: str, found: Sequence[Logits], wanted: Sequence[Logits]
) -> Check:
    """Two ways to compute one model in fp32: logits are equal within rounding, decisions are equal except near-ties."""
    check = Check(graph, f"equal to {by} within rounding", len(found), "sentences")
    largest, off, other, ties = 0.0, 0, 0, 0
    for own, right in zip(found, wanted, strict=True):
        difference = float(np.abs(own - right).max())
        largest = max(largest, difference) if np.isfinite(difference) else np.inf
        off += not difference <= ROUNDING * max(1.0, float(np.abs(right).max()))
        behind = float(right.max() - right[own.argmax()])
        ties += 0 < behind < NEAR_TIE
        other += behind >= NEAR_TIE
    bound = disagreement_bound(other, len(found))
    said = f"max |Δlogit| {largest:.1e}, {ties:,} near-ties, {other:,} other decisions"
    check = replace(check, detail=said, wrong=other, near_ties=ties, bound=bound)
    return _concluded(exported, check, said if off or other else "")


def check_token_logprobs(exported: ExportedModel, asked: Sequence[Sentence]) -> Check:
    """Whether the log-probabilities of all tokens of a sentence are those of its rows, asked for one by one."""
    check = Check(VOCABULARY, "log-probabilities follow from the logits", len(asked), "sentences")
    rows = [replace(sentence, mask=row) for sentence in asked for row in range(len(sentence.ids) - 1)]
    wanted = [
        float(log_softmax(own.logits)[row.ids[row.mask + 1]])
        for own, row in zip(compute(exported.graph, rows), rows, strict=True)
    ]
    model = CausalLM(exported, CPU, graph=exported.graph)
    found = np.concatenate([model.token_logprobs(sentence.ids[None])[0] for sentence in asked])
    largest = float(np.abs(found - wanted).max(initial=0))
    said = f"max difference {largest:.1e}"
    is_close = largest <= ROUNDING * max(1.0, float(np.abs(wanted).max(initial=0)))
    return _concluded(exported, replace(check, detail=said), "" if is_close else said)


def graphs(exported: ExportedModel) -> list[str]:
    """The graphs of an export, the reference first."""
    known = (exported.graph.name, CONVOLVED, *LOW_GRAPHS)
    return [name for name in known if name in exported.info["files"]]


def export_again(exported: ExportedModel) -> str:
    """The command that repairs an export."""
    origin = exported.info.get("origin", exported.name)
    task = "" if exported.task == Task.FILL_MASK else f" --task {exported.task}"
    bos = " --bos" if exported.begins_with_added_bos else ""
    base = f" --base {made_from[MERGED]}" if MERGED in (made_from := exported.info["made_from"]) else ""
    return f"to repair it, run: negengine export {origin}{base}{task}{bos} --output {exported.folder} --force"
