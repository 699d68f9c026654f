"""What `nli train` gives: the trained classifiers, and Table 8 of the paper with ours beside it.

The gain is the accuracy with pairs with negation in the training, minus that without, on pairs that share no sentence
with an added pair. Its test flips the signs of original pairs: would other pairs show the same for these seeds? A
second one flips the signs of seeds: would other seeds show it? That test says something from six seeds on.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec import to_builtins
from numpy.typing import NDArray

from ...engine.experiments.finished_run import fraction, published
from ...engine.experiments.nli.nli import CHOSEN, NliRun
from ...engine.experiments.nli.nli_figures import WITH_CUE
from ...engine.experiments.nli.nli_pairs import KINDS, NEW
from ...engine.library.shown import Shown
from ...engine.requests.items import ALL, ORIGINAL
from ...engine.requests.summary import COMPARES, correction_note
from ...engine.statistics.differences import paired_difference
from ...engine.statistics.intervals import mean, within
from ...engine.statistics.p_values import holm, sign_flips, smallest_p
from ...engine.views import Column, Table
from ..checkpoint_files import TrainingRecord
from .nli_pairs import NliData, plain
from .settings import Settings

NEGATION = "negation"  # what a classifier learns from, beside ORIGINAL
_TITLES = {ORIGINAL: "original", NEGATION: "with new"}
_PERCENT: dict[str, Any] = {"decimals": 1, "scale": 100, "wrap": False}
# Condition, split, and what a table calls the pairs.
_ROWS = (
    (ORIGINAL, ALL, "dev"),
    (ORIGINAL, WITH_CUE, "dev, cues"),
    *((NEW, kind, kind) for kind in KINDS),
    (NEW, ALL, "all"),
)


@dataclass(frozen=True, eq=False)
class Trained:
    """A classifier that is trained; it is evaluated by the engine, or nobody asked for that."""

    folder: Path
    condition: str  # `original`, or `negation` if pairs with negation are added
    seed: int
    record: TrainingRecord
    run: NliRun | None = None


@dataclass(frozen=True, eq=False)
class NliTraining(Shown):
    """Trained classifiers."""

    folder: Path
    pairs: NliData
    family: str
    settings: Settings
    trained: tuple[Trained, ...]
    negation: float | None  # the part of the pairs with negation that was learned; None for none

    def tables(self) -> list[Table]:
        runs = self.runs
        return [
            self.training_table(),
            *([self.accuracy_table()] if runs else []),
            *([self.gain_table()] if len(runs) == 2 else []),
        ]

    @property
    def runs(self) -> dict[str, list[NliRun]]:
        """Condition → the evaluations of its classifiers by seed; empty if nobody asked for them."""
        found: dict[str, list[NliRun]] = {}
        for one in self.trained:
            if one.run is not None:
                found.setdefault(one.condition, []).append(one.run)
        return found

    def training_table(self) -> Table:
        """One row for each classifier; dev: the accuracy on the dev set in PyTorch, a fraction."""
        shown = ("learned", "seed", "epochs", "steps")
        rows = []
        for one in self.trained:
            known = {"learned": _TITLES[one.condition], "seed": one.seed, **one.record.result}
            own = {"dev": one.record.result["score"], "folder": str(one.folder)}
            rows.append({name: known[name] for name in shown} | own)
        dev = Column("dev", "dev", unit="%", **_PERCENT)
        notes = ["dev: accuracy in PyTorch, in percent, of the epoch that was kept", *self._on_tests()]
        return Table(
            title=f"Classifiers trained on {self.pairs.source}",
            frame=pl.DataFrame(rows),
            columns=[*(Column(name, name) for name in shown), dev, Column("folder", "folder")],
            notes=[*notes, *([f"train and dev: {self.pairs.hub.sentence()}"] if self.pairs.hub else [])],
        )

    def _on_tests(self) -> list[str]:
        """Which rows do not count, and what makes an accuracy on dev or on held-out pairs too high."""
        chosen = [CHOSEN] if self.settings.patience is not None else []
        return [*chosen, *self.pairs.unused, *self.pairs.shared.sentences()]

    @property
    def accuracies(self) -> pl.DataFrame:
        """The figures of the evaluations, one row for each kind of pairs. All but n and p are fractions.

        The columns are condition, split, pairs, n, and for each training C that there is: C (the mean over seeds),
        C_deviation, C_low, C_high (95 % interval), C_paper_low, C_paper_high, C_paper. With both trainings also gain,
        gain_n (the pairs without a sentence of an added pair), gain_deviation, gain_low, gain_high, p, least_p,
        p_holm, tests and p_seeds; they are null if no such pair is left.
        """
        rows = [row for row in (self._row(*of) for of in _ROWS) if row is not None]
        tested = [row for row in rows if row.get("p") is not None]
        p, least = (np.array([row[name] for row in tested], np.float64) for name in ("p", "least_p"))
        adjusted, tests = holm(p, least)
        for row, p_holm in zip(tested, adjusted.tolist(), strict=True):
            row |= {"p_holm": p_holm, "tests": tests}
        return pl.DataFrame(rows, infer_schema_length=None)

    def accuracy_table(self) -> Table:
        """Accuracies after training without and with the new pairs: the paper's Table 8."""
        seeds = max(map(len, self.runs.values()))
        notes = ["paper: Table 7 for models of this architecture"]
        if self.negation is not None:
            notes = ["paper: Table 8 as section 6.2 quotes it, lowest and highest of its three models; on dev Table 7"]
        if self.negation is not None and self.negation != 0.7:
            notes.append(f"ours are trained with {100 * self.negation:.0f} % of the new pairs, the paper's with 70 %")
        if seeds > 1:
            notes.append(f"ours: mean ± standard deviation over {seeds} seeds")
        else:
            notes.append("ours: one seed, with 95 % intervals over pairs")
        columns = []
        for learned, runs in self.runs.items():
            beside: dict[str, Any] = {"low": f"{learned}_low", "high": f"{learned}_high"}
            if len(runs) > 1:
                beside = {"spread": f"{learned}_deviation"}
            columns.append(Column(_TITLES[learned], learned, **beside, **_PERCENT))
            columns.append(Column("paper", f"{learned}_paper", wrap=False))
        return Table(
            title=f"Accuracy on {self.pairs.source} after training (%)",
            frame=self.accuracies,
            columns=[Column("pairs", "pairs", wrap=False), Column("n", "n", wrap=False), *columns],
            notes=[*notes, *self._on_tests()],
        )

    def gain_table(self) -> Table:
        """What the pairs with negation add to each accuracy, with tests."""
        frame = self.accuracies
        seeds = len(self.runs[NEGATION])
        points: dict[str, Any] = {"unit": "percentage points", **_PERCENT}
        notes = [
            "gain [95 % interval over pairs]: percentage points",
            correction_note(frame.drop_nulls("p"), "sign flips of original pairs", " of this table"),
            "n: pairs; those that share a sentence with an added pair are left out",
        ]
        if seeds > 1:
            notes[0] = "gain: mean over seeds [95 % interval over pairs]; SD: over seeds; percentage points"
            notes.append(f"p (seeds): sign flips of {seeds} seeds; it is never below {smallest_p(seeds):.2g}")
        return Table(
            title=f"What the new pairs add to the accuracy on {self.pairs.source}",
            frame=frame,
            columns=[
                Column("pairs", "pairs", wrap=False),
                Column("n", "gain_n", wrap=False),
                Column("gain", "gain", low="gain_low", high="gain_high", signed=True, **points),
                *([Column("SD", "gain_deviation", **points)] if seeds > 1 else []),
                Column("p", "p", significant=2, wrap=False),
                Column("p (Holm)", "p_holm", significant=2),
                *([Column("p (seeds)", "p_seeds", significant=2)] if seeds > 1 else []),
            ],
            notes=notes,
        )

    def document(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "task": self.pairs.source,
            "negation": self.negation,
            "settings": asdict(self.settings),
            "data": self.pairs.identity | {"hub": to_builtins(self.pairs.hub)},
            "shared_sentences": {test: dict(own) for test, own in self.pairs.shared.counts.items()},
            "epoch_chosen_on_dev": self.settings.patience is not None,
            "classifiers": [
                {"folder": str(one.folder), "learned": one.condition, "seed": one.seed, **one.record.result}
                for one in self.trained
            ],
            "accuracy": self.accuracies.to_dicts() if self.runs else [],
        }

    def closing(self) -> str:
        first = shlex.quote(str(self.trained[-1].folder))
        count = f"{len(self.trained)} classifiers are" if len(self.trained) > 1 else "the classifier is"
        then = f"negengine show {first}/nli --failed" if self.runs else f"negengine export {first} -o {first}/onnx"
        return f"{self.folder}: {count} written; next, `{then}`"

    def _row(self, condition: str, split: str, label: str) -> dict[str, Any] | None:
        known = {learned: _accuracy(runs, condition, split) for learned, runs in self.runs.items()}
        n = next((found["n"] for found in known.values() if found), None)
        if n is None:
            return None
        is_all_new = condition == NEW and split == ALL
        name = f"{label} {'new' if self.negation is None else 'held out'}" if is_all_new else label
        row: dict[str, Any] = {"condition": condition, "split": split, "pairs": name, "n": n}
        for learned, found in known.items():
            low, high = self._paper(learned, condition, split)
            printed = None
            if low is not None and high is not None:
                printed = f"{100 * low:.1f}" if low == high else f"{100 * low:.1f}-{100 * high:.1f}"
            row |= {learned: found["value"]} | {f"{learned}_{key}": found[key] for key in ("deviation", "low", "high")}
            row |= {f"{learned}_paper_low": low, f"{learned}_paper_high": high, f"{learned}_paper": printed}
        return row | (_gain(self.runs, condition, split, self.pairs.shared.added) if len(self.runs) == 2 else {})

    def _paper(self, learned: str, condition: str, split: str) -> tuple[float | None, float | None]:
        """The lowest and the highest accuracy that the paper prints for such pairs; equal where it prints one."""
        paper: Mapping[str, Any] = published("nli")[self.pairs.source]
        if self.negation is not None and condition == NEW:
            ends = paper["held_out"].get(learned) if split == ALL else None
            return (fraction(ends[0]), fraction(ends[1])) if ends else (None, None)
        printed = paper["accuracy"][condition][split].get(self.family) if learned == ORIGINAL else None
        return (None, None) if printed is None else (fraction(printed), fraction(printed))


def _accuracy(runs: Sequence[NliRun], condition: str, split: str) -> dict[str, Any]:
    """Of the classifiers of one condition: value, deviation, low, high (fractions) and n; empty without such pairs.

    Of one seed, the 95 % interval is over pairs and there is no deviation; of several, both are over the seeds.
    """
    of = {"condition": condition, "split": split, "metric": "accuracy"}
    found = [row for run in runs for row in run.summary.filter(~COMPARES, **of).to_dicts()]
    if not found:
        return {}
    if len(found) == 1:
        return {**found[0], "deviation": None}
    values = np.array([row["value"] for row in found], np.float64)
    value, *ends = mean(values)
    low, high = within((ends[0], ends[1]), 0.0, 1.0)
    return {"value": value, "deviation": float(values.std(ddof=1)), "low": low, "high": high, "n": found[0]["n"]}


def _gain(runs: Mapping[str, Sequence[NliRun]], condition: str, split: str, known: frozenset[str]) -> dict[str, Any]:
    """What the pairs with negation add, on the same pairs without a known sentence, and its tests."""
    before, clusters = _outcomes(runs[ORIGINAL], condition, split, known)
    after, _ = _outcomes(runs[NEGATION], condition, split, known)
    if not len(clusters):
        columns = ("gain", "gain_deviation", "gain_low", "gain_high", "p", "least_p", "p_holm", "tests", "p_seeds")
        return {"gain_n": 0} | dict.fromkeys(columns)
    seeds, deviation, p_seeds = len(before), None, None
    if seeds == 1:
        found = paired_difference(after[0], before[0], clusters)
    else:
        right, right_before = (own.sum(axis=0).astype(np.float64) for own in (after, before))
        found = paired_difference(right, right_before, clusters, range_=(-seeds, seeds))
        gains = after.sum(axis=1) - before.sum(axis=1).astype(np.int64)
        deviation, p_seeds = float((gains / before.shape[1]).std(ddof=1)), sign_flips(gains)
    low, high = (None if end is None else end / seeds for end in (found.low, found.high))
    return {
        "gain": found.value / seeds,
        "gain_n": found.n,
        "gain_deviation": deviation,
        "gain_low": low,
        "gain_high": high,
        "p": found.p,
        "least_p": found.least,
        "p_seeds": p_seeds,
    }


def _outcomes(
    runs: Sequence[NliRun], condition: str, split: str, known: frozenset[str]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether each run is right on each pair, bool [runs, pairs], and the original pair of each, int64 [pairs].

    Pairs with a known sentence are left out.
    """
    rows = []
    numbers = np.empty(0, np.int64)
    for run in runs:
        items = run.items.filter(pl.col("condition") == condition)
        items = items.filter(pl.col("splits").list.contains(split)).with_columns(pl.col("item").cast(pl.Int64))
        sides = items.select("text", "second").iter_rows()
        items = items.filter([known.isdisjoint(map(plain, pair)) for pair in sides]).sort("item")
        rows.append(items["accuracy"].to_numpy())
        numbers = items["item"].to_numpy()
    clusters = numbers // len(KINDS) if condition == NEW else numbers
    return np.array(rows, bool), clusters.astype(np.int64)
