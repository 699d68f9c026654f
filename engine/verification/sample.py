"""Items of a run that are decided again, one by one, and how many of them agree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from ..inference.exported import ExportedModel
from ..inference.free_text import log_softmax
from ..inference.precision import disagreement_bound
from ..library.run import Run
from ..negation.runs import SelectionRun
from ..negation.select import NEAR_TIE
from ..probes.gh22.runs import Gh22Run
from ..probes.lama.runs import LamaRun
from ..probes.nli.runs import NliRun
from ..sentences.lexicon import Lexicon
from ..sentences.tokenizer import MaskTokenizer
from .agreement import ROUNDING, Compared, Recorded, Verdict, compare
from .asked import Correlated, drawn_acts, drawn_correlations, drawn_items
from .candidates import Unselected, plan_again
from .checks import Check, Outcome
from .reference import Logits, Reference, each
from .stored import StoredStage

_CORRELATION = 1e-4  # by how much a rank correlation may differ if logits are rounded differently
_LOWER_95 = 0.05



def decide_again(
    stored: StoredStage,
    run: Run,
    exported: ExportedModel,
    reference: Reference,
    *,
    sample: int,
    seed: int,
    lexicon: Lexicon | None,
) -> Iterator[Check]:
    """Decide a sample of a run's items again.

    Args:
        stored: The stage.
        run: Its results.
        exported: Its model.
        reference: What decides again.
        sample: How many items of each kind are drawn.
        seed: Of the choice.
        lexicon: The word lists of a selection; None where they are not known.

    Raises:
        InputError: The items of the run cannot be asked again.
    """
    conclude = partial(_conclude, stored, reference.name)
    if isinstance(run, NliRun):
        yield conclude("pairs", "pairs", _pairs(run, reference, sample, seed))
        return
    ask = partial(_ask, reference, MaskTokenizer.load(exported.folder, exported.mask_token))
    items = drawn_items(run, exported, sample, seed)
    if isinstance(run, SelectionRun):
        yield conclude("selected triplets", "triplets", ask(items))
        what = "candidates that were not selected"
        if lexicon is None:
            yield Check(
                stored.name,
                what,
                outcome=Outcome.NOT_CHECKED,
                detail="the run had its own word lists: give --lexicon DIR",
            )
        else:
            stage = plan_again(stored.record, exported, lexicon)
            yield conclude(what, "candidates", ask(Unselected.of(stage, run.triplets).drawn(sample, seed)))
        return
    yield conclude("items", "items", ask(items))
    if isinstance(run, Gh22Run):
        yield conclude("ACTs", "ACTs", ask(drawn_acts(run, exported, sample, seed)))
    if isinstance(run, LamaRun):
        pairs, ranked = drawn_correlations(run, exported, sample, seed)
        if ranked is not None:
            yield conclude("correlations", "facts", _correlations(reference, pairs, ranked))


def _ask(reference: Reference, tokenizer: MaskTokenizer, items: Sequence[Recorded]) -> list[tuple[str, Compared]]:
    def one(item: Recorded) -> tuple[str, Compared]:
        return item.name, compare(item, reference.masked(item.text), tokenizer.token_text)

    return each(items, one)


def _pairs(run: NliRun, reference: Reference, sample: int, seed: int) -> list[tuple[str, Compared]]:
    """The labels and probabilities of a classifier."""
    labels, longest = run.record.identity["labels"], run.record.identity["max length"]
    rows = run.sentences(sample=sample, seed=seed).to_dicts()

    def one(row: dict[str, object]) -> tuple[str, Compared]:
        logits = reference.pair(str(row["premise"]), str(row["hypothesis"]), longest)
        name = f"{row['item']} of {row['dataset']} {row['condition']}"
        return name, _label(logits, labels, str(row["predicted"]), float(str(row["probability"])))

    return each(rows, one)


def _label(logits: Logits, labels: Sequence[str], predicted: str, probability: float) -> Compared:
    """A recorded label and its probability against the logits."""
    own, best = labels.index(predicted), int(logits.argmax())
    if own != best:
        behind = float(logits[best] - logits[own])
        said = f"the label was {predicted}, but now {labels[best]} (margin {behind:.2g} logits)"
        return Compared(Verdict.NEAR_TIE if behind < NEAR_TIE else Verdict.WRONG, said)
    now = float(np.exp(log_softmax(logits)[own]))
    if abs(now - probability) > ROUNDING:
        return Compared(Verdict.WRONG, f"probability {probability:.4f}, but now {now:.4f}")
    return Compared(Verdict.AGREES)


def _correlations(
    reference: Reference, facts: Sequence[Correlated], ranked: NDArray[np.int64]
) -> list[tuple[str, Compared]]:
    def one(fact: Correlated) -> tuple[str, Compared]:
        query, negation = (reference.masked(text)[ranked] for text in fact.texts)
        now = float(stats.spearmanr(query, negation).statistic)
        if abs(now - fact.correlation) <= _CORRELATION:
            return fact.name, Compared(Verdict.AGREES)
        return fact.name, Compared(Verdict.WRONG, f"correlation {fact.correlation:.5f}, but now {now:.5f}")

    return each(facts, one)


def _conclude(
    stored: StoredStage, by: str, kind: str, unit: str, compared: Sequence[tuple[str, Compared]]
) -> Check:
    """The check that a sample makes."""
    check = Check(stored.name, f"{kind}, decided again by {by}", len(compared), unit)
    if not compared:
        return replace(check, outcome=Outcome.NOT_CHECKED, detail="there are none")
    wrong = [(name, found) for name, found in compared if found.verdict is Verdict.WRONG]
    ties = sum(found.verdict is Verdict.NEAR_TIE for _, found in compared)
    bound = disagreement_bound(len(wrong), len(compared))
    said = (
        f"{len(compared) - len(wrong) - ties:,} agree, {ties:,} near-ties, {len(wrong):,} wrong "
        f"(95 %: at most {100 * bound:.2g} %)"
    )
    check = replace(check, detail=said, wrong=len(wrong), near_ties=ties, bound=bound)
    if not wrong or _lower_bound(len(wrong), len(compared)) <= _allowed(stored):
        return check
    name, first = wrong[0]
    return replace(
        check, outcome=Outcome.DAMAGED, detail=f"{said}; {name}: {first.why}", repair=stored.decide_again
    )


def _allowed(stored: StoredStage) -> float:
    """The share of wrong decisions that the run itself leaves possible: that of its audit, 0 in fp32."""
    counts = stored.record.counts
    if not counts.get("decided"):
        return 0.0
    return disagreement_bound(int(counts.get("disagreements", 0)), int(counts.get("audited", 0)))


def _lower_bound(wrong: int, n: int) -> float:
    """Lower 95 % confidence bound on a share (Clopper and Pearson 1934), one-sided."""
    return float(special.betaincinv(wrong, n - wrong + 1, _LOWER_95))


