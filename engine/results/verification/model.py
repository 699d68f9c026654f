"""An exported model on this machine: its files, its graphs beside each other, and PyTorch if asked for."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...basics.choices import LANGUAGE_MODELS, Task
from ...basics.errors import InputError
from ...basics.limits import cpu_threads
from ...basics.numerals import percent
from ...basics.reading import file_sha256, is_file
from ...inference.again import NEAR_TIE, ROUNDING, Logits, Reference
from ...inference.audit import disagreement_bound
from ...inference.batches import INPUTS
from ...inference.devices.cpu import CPU
from ...inference.exported import CONVOLVED, LOW_GRAPHS, MANIFEST, MERGED, ExportedModel, load_exported
from ...text.lexicon import load_lexicon
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern
from ...text.pattern_files import load_patterns
from ...text.tokenizer import NOT_ONE_TOKEN
from .checks import Check, Verification
from .reference import ExportedReference, each, torch_reference

_PAIR_LENGTH = 128
_FEWEST_ALIKE = 0.5  # a low-precision graph with the same top-1 in fewer sentences is not a copy of the model
_LENGTHS = (3, 17, 64, 150, 512)


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


def _concluded(exported: ExportedModel, check: Check, wrong: str) -> Check:
    return check.damaged(wrong, export_again(exported)) if wrong else check


def _masked(exported: ExportedModel, sample: int, seed: int, torch: Reference | None) -> Iterator[Check]:
    asked = masked_sentences(exported, sample, seed)
    reference: list[Logits] = []
    for name in graphs(exported):
        logits = compute(exported.folder / name, asked)
        if not reference:
            reference = logits
        else:
            yield _against_reference(exported, name, logits, reference, [sentence.expected for sentence in asked])
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
    expected: int  # some token, whose margin says how close a graph of low precision is


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


def compute(graph: Path, asked: Sequence[Sentence]) -> list[Logits]:
    """The logits of a graph for sentences, one by one, float32 [V]; a graph that does not load is an `InputError`."""
    session = CPU.session(graph)

    def one(sentence: Sentence) -> Logits:
        arrays = (sentence.ids[None], np.array([sentence.mask], np.int32), np.array([sentence.expected], np.int32))
        logits: Logits = session.run(["logits"], dict(zip(INPUTS, arrays, strict=True)))[0][0]
        return logits

    return each(asked, one, cpu_threads())


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
