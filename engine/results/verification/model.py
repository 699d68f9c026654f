"""An exported model on this machine: its files, its graphs beside each other, and PyTorch if asked for."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from ...basics.choices import LANGUAGE_MODELS, Task
from ...basics.errors import InputError
from ...basics.numerals import percent
from ...basics.reading import file_sha256, is_file
from ...inference.again import NEAR_TIE, ROUNDING, Logits, Reference
from ...inference.audit import disagreement_bound
from ...inference.exported import CONVOLVED, LOW_GRAPHS, MANIFEST, MERGED, ExportedModel, load_exported
from ...text.lexicon import load_lexicon
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB
from ...text.pattern_files import load_patterns
from .checks import Check, Verification
from .reference import ExportedReference, each, torch_reference

_PAIR_LENGTH = 128
_FEWEST_ALIKE = 0.5  # a low-precision graph with the same top-1 in fewer sentences is not a copy of the model
_LENGTHS = (3, 17, 64, 150, 512)
Question = Callable[[Any], Logits]  # what a reference is asked


def verify_model(reference: Path, sample: int, seed: int, torch: str | None) -> Verification:
    """Verify an exported model; its graphs are compared on `sample` sentences and on strings of random tokens."""
    exported = any_model(reference)
    what = "the file is as it was written"
    checks = [Check(MANIFEST, what, 1, "files")]  # it was read, so it has the digest that it should have
    digests = {**exported.info["files"], **exported.info.get("further_files", {})}
    for name, digest in digests.items():
        path = exported.folder / name
        other = "" if is_file(path) and file_sha256(path) == digest else "its sha256 is not that in export.json"
        checks.append(_concluded(exported, Check(name, what, 1, "files"), other if is_file(path) else "it is missing"))
    if sample and not any(check.is_damage for check in checks):
        checks += _compared(exported, sample, seed, None if torch is None else torch_reference(torch, exported))
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


def _compared(exported: ExportedModel, sample: int, seed: int, torch: Reference | None) -> Iterator[Check]:
    first, *others = graphs(exported)
    if exported.task == Task.TOKEN_CLASSIFICATION:
        check = Check(first, "equal to PyTorch within rounding")
        yield check.skipped("its labels were compared with PyTorch when it was exported")
        return
    texts = list(_about_texts(exported, sample, seed))
    questions = [*texts, *_about_tokens(exported, seed)]
    right = _answers(ExportedReference(exported), questions)
    for name in others:
        found = _answers(ExportedReference(exported, name), questions)
        compare = _close if name in LOW_GRAPHS else _equal
        yield compare(exported, name, first, found, right)
    if torch is not None:
        yield _equal(exported, first, torch.name, right[: len(texts)], _answers(torch, texts))


def _about_texts(exported: ExportedModel, n: int, seed: int) -> Iterator[Question]:
    """Sentences of the bundled patterns, with a mask or as pairs."""
    lexicon, patterns = load_lexicon(), load_patterns().all
    random, tokenizer = np.random.default_rng(seed), exported.tokenizer
    for number in range(n):
        name = int(random.integers(len(lexicon.names)))
        fillers = {
            NAME: lexicon.names[name],
            PROFESSION: str(random.choice(lexicon.professions)),
            VERB: str(random.choice(lexicon.verbs)),
            PRONOUN: lexicon.pronouns[lexicon.genders[name]],
        }
        pattern = patterns[number % len(patterns)]
        if exported.task not in LANGUAGE_MODELS:
            one, _, other = pattern.text(fillers, fillers[VERB]).partition(". ")
            yield methodcaller("pair", f"{one}.", other, min(_PAIR_LENGTH, exported.max_length))
            continue
        text = pattern.text(fillers, tokenizer.mask_token)
        if len(tokenizer.encode_masked([text])[0]) <= exported.max_length:
            yield methodcaller("masked", text)


def _about_tokens(exported: ExportedModel, seed: int) -> Iterator[Question]:
    """Random tokens of all lengths, of a language model: a graph can err on long texts alone."""
    if exported.task not in LANGUAGE_MODELS:
        return
    random, mask_id = np.random.default_rng(seed), exported.tokenizer.mask_id
    tokens = np.setdiff1d(np.arange(exported.vocab_size), [mask_id, exported.padding_id or 0])
    longest = max(exported.info.get("compared_lengths") or [exported.max_length])
    for length in sorted({min(length, longest) for length in (*_LENGTHS, longest)} - {1, 2}):
        ids = random.choice(tokens, length).astype(np.int32)
        place = length if exported.is_causal else int(random.integers(length))
        if not exported.is_causal:
            ids[place] = mask_id
        yield methodcaller("at", ids, place)


def _answers(reference: Any, questions: Sequence[Question]) -> list[Logits]:
    return each(questions, lambda question: question(reference), reference.at_once)


def _close(exported: ExportedModel, graph: str, by: str, found: Sequence[Logits], wanted: Sequence[Logits]) -> Check:
    """A graph of low precision: how far its margins between the reference's first choice and all others are off."""
    own, right = (
        np.array([logits[best] - np.delete(logits, best).max() for logits, best in zip(side, firsts, strict=True)])
        for firsts in [[int(logits.argmax()) for logits in wanted]]
        for side in (found, wanted)
    )
    errors = own - right
    share = np.mean([one.argmax() == other.argmax() for one, other in zip(found, wanted, strict=True)])
    said = (
        f"error of the margin: mean {np.mean(errors):+.2g}, standard deviation {np.std(errors):.2g}, largest "
        f"{np.abs(errors).max():.2g} logits; same top-1 in {percent(share)} %"
    )
    check = Check(graph, f"close to {by}", len(errors), "sentences", detail=said)
    return _concluded(exported, check, "" if np.isfinite(errors).all() and share >= _FEWEST_ALIKE else said)


def _equal(exported: ExportedModel, graph: str, by: str, found: Sequence[Logits], wanted: Sequence[Logits]) -> Check:
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
