"""Items of a run that are decided again, one by one, and how many of them agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...experiments.gh22.runs import Gh22Run
from ...experiments.lama.runs import LamaRun
from ...experiments.likelihood.runs import LikelihoodRun
from ...experiments.negation.runs import ScoresRun, SelectionRun
from ...experiments.negation.select import NEAR_TIE
from ...experiments.negation.several import SEVERAL
from ...experiments.nli.runs import NliRun
from ...experiments.probe.runs import ProbeRun
from ...inference.audit import disagreement_bound
from ...inference.exported import REFERENCE, ExportedModel
from ...inference.free_text import log_softmax
from ...library.run import Run
from ...text.lexicon import Lexicon
from .agreement import ROUNDING, Compared, Recorded, Verdict, compare
from .asked import Correlated, drawn_acts, drawn_correlations, drawn_items
from .candidates import Unselected, plan_again
from .checks import Check, Outcome
from .likelihoods import likelihoods_again
from .reference import Logits, Reference, each
from .several import several_again
from .stored import StoredStage
from .targets import TARGETS, targets_again

CONFIDENCE = 0.95
_CORRELATION = 1e-4  # by how much a rank correlation may differ if logits are rounded differently


@dataclass(frozen=True, eq=False)
class Sample:
    """How items are drawn and decided again.

    Attributes:
        exported: The run's model.
        reference: What decides again.
        size: How many items of each kind are drawn.
        seed: Of the choice.
        lexicon: The word lists of a selection; None where they are not known.
    """

    exported: ExportedModel
    reference: Reference
    size: int
    seed: int
    lexicon: Lexicon | None = None

    def checks(self, stored: StoredStage, run: Run) -> Iterator[Check]:
        """Decide a sample of a run's items again.

        Args:
            stored: The stage.
            run: Its results.

        Raises:
            InputError: The items of the run cannot be asked again.
        """
        if isinstance(run, NliRun):
            yield self._conclude(stored, "pairs", _labels(run, self))
            return
        if isinstance(run, LikelihoodRun):
            again = likelihoods_again(run, self.exported, self.reference, self.size, self.seed)
            yield self._conclude(stored, "sentences", again)
            return
        items = drawn_items(run, self.exported, self.size, self.seed)
        if isinstance(run, ProbeRun) and (
            several := targets_again(run, self.exported, self.reference, self.size, self.seed)
        ):
            yield self._conclude(stored, TARGETS, several)
            if not items:  # all of them are more than one decision
                return
        yield self._conclude(stored, "items", self._ask(items))
        if isinstance(run, SelectionRun | ScoresRun) and run.several is not None:
            again = several_again(run, self.exported, self.reference, self.size, self.seed)
            yield self._conclude(stored, SEVERAL, again)
        if isinstance(run, SelectionRun):
            yield self._unselected(stored, run)
        if isinstance(run, Gh22Run):
            yield self._conclude(stored, "ACTs", self._ask(drawn_acts(run, self.exported, self.size, self.seed)))
        if isinstance(run, LamaRun):
            pairs, ranked = drawn_correlations(run, self.exported, self.size, self.seed)
            if ranked is not None:
                yield self._conclude(stored, "correlations", _correlations(self.reference, pairs, ranked))

    def _ask(self, items: Sequence[Recorded]) -> list[Compared]:
        tokenizer = self.exported.tokenizer

        def one(item: Recorded) -> Compared:
            return compare(item, self.reference.masked(item.text), tokenizer.token_text)

        return each(items, one, self.reference.at_once)

    def _unselected(self, stored: StoredStage, run: SelectionRun) -> Check:
        kind = "unselected candidates"
        if self.lexicon is None or self.lexicon.sha256 != stored.record.identity["lexicon sha256"]:
            why = "the word lists of the run were not found: give --lexicon DIR"
            return Check(stored.name, self._what(kind), outcome=Outcome.NOT_CHECKED, detail=why)
        stage = plan_again(stored.record, self.exported, self.lexicon)
        return self._conclude(stored, kind, self._ask(Unselected.of(stage, run).drawn(self.size, self.seed)))

    def _what(self, kind: str) -> str:
        return f"{kind} decided again by {self.reference.name}"

    def _conclude(self, stored: StoredStage, kind: str, compared: Sequence[Compared]) -> Check:
        """The check that a sample makes."""
        check = Check(stored.name, self._what(kind), len(compared), kind.rsplit(maxsplit=1)[-1])
        if not compared:
            return replace(check, outcome=Outcome.NOT_CHECKED, detail="there are none")
        wrong = [found for found in compared if found.verdict is Verdict.WRONG]
        ties = sum(found.verdict is Verdict.NEAR_TIE for found in compared)
        bound = disagreement_bound(len(wrong), len(compared), CONFIDENCE)
        said = (
            f"{len(compared) - len(wrong) - ties:,} agree, {ties:,} near-ties, {len(wrong):,} wrong; "
            f"with 95 % confidence at most {100 * bound:.2g} % are wrong"
        )
        check = replace(check, detail=said, wrong=len(wrong), near_ties=ties, bound=bound)
        if not _are_too_many(compared, stored.record.counts):
            return check
        worst = min(wrong, key=lambda found: not found.is_exact)
        detail = f"{said} ({worst.name}: {worst.why})"
        return replace(check, outcome=Outcome.DAMAGED, detail=detail, repair=stored.decide_again)


def _are_too_many(compared: Sequence[Compared], counts: Any) -> bool:
    """Whether there are more wrong items than the run itself leaves possible.

    The reference model does not decide wrongly. Of the decisions that the low-precision model made alone, some may be
    wrong: as many as the run's audit allows.
    """
    wrong = [found for found in compared if found.verdict is Verdict.WRONG]
    if any(found.is_exact for found in wrong):
        return True
    alone = sum(not found.is_exact for found in compared)
    allowed = disagreement_bound(int(counts.get("disagreements", 0)), int(counts.get("audited", 0)))
    return bool(wrong) and _lower_bound(len(wrong), alone) > allowed


def _lower_bound(wrong: int, n: int) -> float:
    """Lower confidence bound on a share, one-sided (Clopper and Pearson 1934)."""
    from scipy import special

    return float(special.betaincinv(wrong, n - wrong + 1, 1 - CONFIDENCE))


def _labels(run: NliRun, sample: Sample) -> list[Compared]:
    """The labels and probabilities of a classifier."""
    labels, longest = run.record.identity["labels"], run.record.identity["max length"]

    def one(row: dict[str, Any]) -> Compared:
        logits = sample.reference.pair(row["premise"], row["hypothesis"], longest)
        name = f"{row['item']} of {row['dataset']} {row['condition']}"
        is_exact = row["precision"] == REFERENCE
        probability = row["probability"] if is_exact else None
        return Compared(name, *_label(logits, labels, row["predicted"], probability), is_exact)

    return each(run.sentences(sample=sample.size, seed=sample.seed).to_dicts(), one, sample.reference.at_once)


def _label(logits: Logits, labels: Sequence[str], predicted: str, probability: float | None) -> tuple[Verdict, str]:
    """A recorded label and its probability against the logits; a probability of low precision is not compared."""
    own, best = labels.index(predicted), int(logits.argmax())
    if own != best:
        behind = float(logits[best] - logits[own])
        said = f"the label was {predicted}, but now {labels[best]} (margin {behind:.2g} logits)"
        return Verdict.NEAR_TIE if behind < NEAR_TIE else Verdict.WRONG, said
    now = float(np.exp(log_softmax(logits)[own]))
    if probability is not None and abs(now - probability) > ROUNDING:
        return Verdict.WRONG, f"probability {probability:.4f}, but now {now:.4f}"
    return Verdict.AGREES, ""


def _correlations(reference: Reference, facts: Sequence[Correlated], ranked: NDArray[np.int32]) -> list[Compared]:
    from scipy import stats

    def one(fact: Correlated) -> Compared:
        query, negation = (reference.masked(text)[ranked] for text in fact.texts)
        now = float(stats.spearmanr(query, negation).statistic)
        if abs(now - fact.correlation) <= _CORRELATION:
            return Compared(fact.name, Verdict.AGREES)
        return Compared(fact.name, Verdict.WRONG, f"correlation {fact.correlation:.5f}, but now {now:.5f}")

    return each(facts, one, reference.at_once)
