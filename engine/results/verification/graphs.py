"""The graphs of an export on the same sentences: equal in fp32 within rounding, close at low precision.

Sentences are those of the bundled patterns with random words, as texts, and strings of random tokens from the shortest
to the longest that the model takes, because a graph can be right for short sentences only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...basics.choices import LANGUAGE_MODELS, Task
from ...basics.printable import counted
from ...inference.audit import disagreement_bound
from ...inference.batches import INPUTS, OUTPUTS, WIDTHS
from ...inference.causal import CausalLM
from ...inference.device import CPU, cpu_threads
from ...inference.exported import CONVOLVED, LOW_PRECISION, VOCABULARY, ExportedModel
from ...inference.free_text import log_softmax
from ...inference.session import open_session
from ...library.again import NEAR_TIE, ROUNDING, Logits
from ...text.lexicon import load_lexicon
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern
from ...text.pattern_files import load_patterns
from ...text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from .checks import Check
from .reference import each

_FEWEST_ALIKE = 0.5
"""A low-precision graph that has the same top-1 in fewer sentences than that is not a copy of the model."""
_LENGTHS = (3, 17, 64, 150, 512)


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence as a graph takes it."""

    text: str  # as the tokenizer reads it; empty for a string of random tokens
    ids: NDArray[np.int32]  # int32 [L]; of a causal model, what stands before the mask
    mask: int  # the row that is asked for: the position of the mask; of a causal model, the one before it
    expected: int  # some token, whose logit and rank the graph reports


def masked_sentences(exported: ExportedModel, n: int, seed: int) -> list[Sentence]:
    """N sentences of the bundled patterns, and strings of random tokens."""
    tokenizer = exported.tokenizer
    found = list(_of_patterns(exported, tokenizer, n, seed))
    random = np.random.default_rng(seed)
    tokens = np.setdiff1d(np.arange(exported.vocab_size), [tokenizer.mask_id, exported.padding_id or 0])
    for length in sorted({min(length, exported.max_length) for length in (*_LENGTHS, exported.max_length)} - {1, 2}):
        ids = random.choice(tokens, length).astype(np.int32)
        mask = int(random.integers(length))
        if not exported.is_causal:
            ids[mask] = tokenizer.mask_id
        found.append(Sentence("", ids, mask, int(random.choice(tokens))))
    return found


def _of_patterns(exported: ExportedModel, tokenizer: MaskTokenizer, n: int, seed: int) -> Iterator[Sentence]:
    for pattern, fillers in _filled(n, seed):
        text = pattern.text(fillers, tokenizer.mask_token)
        [ids] = tokenizer.encode_masked([text])
        before, _, after = text.partition(tokenizer.mask_token)
        [token] = tokenizer.word_tokens([(before, after)], [fillers[VERB]]).tolist()
        if len(ids) <= exported.max_length:
            mask = int(np.flatnonzero(ids == tokenizer.mask_id)[0])
            token = 0 if token == NOT_ONE_TOKEN else token
            if exported.is_causal:
                ids, mask = ids[:mask], mask - 1
            yield Sentence(text, ids, mask, token)


def text_pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """The two sentences of the bundled patterns as n pairs, with random words; no mask in them."""
    pairs = []
    for pattern, fillers in _filled(n, seed):
        first, _, second = pattern.text(fillers, fillers[VERB]).partition(". ")
        pairs.append((f"{first}.", second))
    return pairs


def _filled(n: int, seed: int) -> Iterator[tuple[Pattern, dict[str, str]]]:
    lexicon, patterns = load_lexicon(), load_patterns().all
    random = np.random.default_rng(seed)
    for number in range(n):
        name = int(random.integers(len(lexicon.names)))
        yield (
            patterns[number % len(patterns)],
            {
                NAME: lexicon.names[name],
                PROFESSION: str(random.choice(lexicon.professions)),
                VERB: str(random.choice(lexicon.verbs)),
                PRONOUN: lexicon.pronouns[lexicon.genders[name]],
            },
        )


@dataclass(frozen=True, eq=False)
class Computed:
    """What a graph computes for a sentence."""

    logits: Logits  # float32 [V]
    ids: NDArray[np.int32]  # int32 [2], as `Decisions.ids`
    values: NDArray[np.float32]  # float32 [4], as `Decisions.logits`


def compute(graph: Path, asked: Sequence[Sentence]) -> list[Computed]:
    """Run a graph on sentences, one by one; a graph that does not load is an `InputError`."""
    session = open_session(graph, CPU, threads=1)

    def one(sentence: Sentence) -> Computed:
        arrays = (sentence.ids[None], np.array([sentence.mask], np.int32), np.array([sentence.expected], np.int32))
        logits, ids, values = session.run(["logits", *OUTPUTS], dict(zip(INPUTS, arrays, strict=True)))
        return Computed(logits[0], ids[0], values[0])

    return each(asked, one, cpu_threads())


def check_form(exported: ExportedModel, graph: Path) -> Check:
    """Whether a graph has the inputs and outputs that the engine uses, of the size that export.json says."""
    check = Check(graph.name, "inputs and outputs are those of export.json", 1, "graphs")
    session = open_session(graph, CPU, threads=1)
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
    return check.damaged(wrong[0], export_again(exported)) if wrong else check


def check_heads(exported: ExportedModel, graph: str, found: Sequence[Computed], asked: Sequence[Sentence]) -> Check:
    """Whether the decisions that a graph makes are those of its own logits, by NumPy."""
    wrong = sum(not _is_own_decision(own, one.expected) for own, one in zip(found, asked, strict=True))
    check = Check(graph, "decisions follow from the logits", len(found), "sentences")
    return check.damaged(f"not in {counted(wrong, 'sentence')}", export_again(exported)) if wrong else check


def _is_own_decision(own: Computed, expected: int) -> bool:
    logits = own.logits.astype(np.float64)
    first, second = np.sort(logits)[::-1][:2]
    total = first + np.log(np.exp(logits - first).sum())
    values = np.array([first, second, logits[expected], total])
    rank = 1 + int((own.logits > own.logits[expected]).sum())
    is_close = np.abs(own.values - values).max() <= ROUNDING * max(1.0, np.abs(values).max())
    return bool(own.logits[own.ids[0]] == own.logits.max() and own.ids[1] == rank and is_close)


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
    return check.damaged(said, export_again(exported)) if off or other else check


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
    said, is_close = (
        f"max difference {largest:.1e}",
        largest <= ROUNDING * max(1.0, float(np.abs(wanted).max(initial=0))),
    )
    return replace(check, detail=said) if is_close else check.damaged(said, export_again(exported))


def check_close(exported: ExportedModel, graph: str, found: Sequence[Computed], wanted: Sequence[Computed]) -> Check:
    """A low-precision graph: how far its margins are from those of the reference model."""
    check = Check(graph, "close to model.onnx", len(found), "sentences")
    errors = np.array([_margin(own) - _margin(right) for own, right in zip(found, wanted, strict=True)])
    alike = np.mean([own.ids[0] == right.ids[0] for own, right in zip(found, wanted, strict=True)])
    said = (
        f"error of the margin: mean {errors.mean():+.2g}, standard deviation {errors.std():.2g}, largest "
        f"{np.abs(errors).max():.2g} logits; same top-1 in {100 * alike:.1f} %"
    )
    is_close = np.isfinite(errors).all() and alike >= _FEWEST_ALIKE
    return replace(check, detail=said) if is_close else check.damaged(said, export_again(exported))


def _margin(own: Computed) -> float:
    """The expected token's logit minus the best other logit."""
    best_other = own.values[1] if own.ids[1] == 1 else own.values[0]
    return float(own.values[2] - best_other)


def graphs(exported: ExportedModel) -> list[str]:
    """The graphs of an export, the reference first."""
    return [
        name for name in (exported.graph.name, CONVOLVED, *LOW_PRECISION.values()) if name in exported.info["files"]
    ]


def export_again(exported: ExportedModel) -> str:
    """The command that repairs an export."""
    origin = exported.info.get("origin", exported.name)
    task = "" if exported.task == Task.FILL_MASK else f" --task {exported.task}"
    bos = " --bos" if exported.begins_with_added_bos else ""
    return f"to repair it, run: negengine export {origin}{task}{bos} --output {exported.folder} --force"
