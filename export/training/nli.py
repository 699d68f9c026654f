"""`negengine nli train`: from a checkpoint and pairs to a classifier, and to its accuracies beside the paper's."""

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ...engine.basics.choices import Task
from ...engine.basics.errors import InputError
from ...engine.experiments.finished_run import fraction, published
from ...engine.experiments.nli.nli import CHOSEN, WITH_CUE, NliRun, nli
from ...engine.experiments.nli.nli_pairs import KINDS, NEW, SOURCES, scheme_of
from ...engine.library.model import export
from ...engine.library.shown import Shown
from ...engine.library.training_options import NliOptions
from ...engine.requests.items import ALL, ORIGINAL
from ...engine.requests.summary import COMPARES
from ...engine.runs.progress import Reporter
from ...engine.views import Column, Table
from ..checkpoint_files import TrainingRecord
from ..tasks import TEXT_CLASSIFICATION
from ..trace import exporter_of
from .base import Base
from .fit import Batch, Job, train
from .nli_pairs import Example, NliData, read_data, write_held_out
from .settings import Place, Settings, settings_of

ONNX, RUN = "onnx", "nli"  # folders of an evaluated classifier: its export, and the engine's run
FAMILY = "bert"  # whose settings the families get that the paper does not have
NEGATION = "negation"  # what a classifier learns from beside the original pairs
_PAPER: dict[str, Any] = tomllib.loads((Path(__file__).parent / "nli.toml").read_text("utf-8"))
_PERCENT: dict[str, Any] = {"decimals": 1, "scale": 100, "wrap": False}
# Condition, split, and what a table calls the pairs.
_ROWS = (
    (ORIGINAL, ALL, "dev"),
    (ORIGINAL, WITH_CUE, "dev, cues"),
    *((NEW, kind, kind) for kind in KINDS),
    (NEW, ALL, "all"),
)


def train_nli(options: NliOptions) -> "NliTraining":
    """Train a classifier of sentence pairs (Hossain et al. 2020, sections 6.1 and 6.2).

    Raises InputError if an option, a file or the checkpoint is wrong; the folder belongs to something else; memory or
    disk are full.
    """
    source = options.task.upper()
    if options.negation_data is not None and options.negation is None and not options.evaluate:
        raise InputError("--negation-data: give --negation too, such as --negation 0.7, or --evaluate")
    reporter = Reporter(verbose=options.verbose, silent=not options.progress)
    place = Place.find(options.device, options.threads)
    given: Any = {"revision": options.revision, "allow_pickle": options.allow_pickle, "new_pooler": options.new_pooler}
    labels = [str(label) for label in SOURCES[source]]
    base = Base.find(options.model, TEXT_CLASSIFICATION.head, labels, scheme_of, **given)
    if options.evaluate:
        exporter_of(base.name, base.config, TEXT_CLASSIFICATION.head.task)  # fails before the training
    found = _PAPER[source]
    plain = {name: value for name, value in found.items() if not isinstance(value, dict)}
    own = {"max_length": _PAPER["max_length"]} | plain | found.get(base.config.model_type, found.get(FAMILY, {}))
    settings = settings_of(options, own, place, base.longest)
    pairs = read_data(source, options, reporter.say)
    job = partial(Job, pairs.examples(), pairs.dev, pair_encoder(base.tokenizer, settings.max_length), accuracy)
    record = train("nli train", base, job, pairs.identity, settings, place, options, reporter)
    held_out = write_held_out(options.output, source, pairs.negation.held_out) if pairs.negation else None
    run = _evaluated(pairs, held_out or options.negation_data, settings, options) if options.evaluate else None
    return NliTraining(options.output, pairs, base.config.model_type, settings, record, run, options.negation)


def _evaluated(pairs: NliData, new: Path | None, settings: Settings, options: NliOptions) -> NliRun:
    """The run of the exported classifier on the dev set and on pairs with negation."""
    folder = options.output
    exported = export(str(folder), folder / ONNX, task=Task.TEXT_CLASSIFICATION, progress=options.progress)
    given: dict[str, Any] = {"progress": options.progress, "verbose": options.verbose}
    given |= {"command": options.command} if options.command else {}
    given |= {"max_length": settings.max_length, "original": {pairs.source: pairs.dev_file}}
    run = nli(exported, data=new, source=pairs.source, output=folder / RUN, **given)
    assert isinstance(run, NliRun)  # noqa: S101 - no shard was asked for
    return run


@dataclass(frozen=True, eq=False)
class NliTraining(Shown):
    """A trained classifier; it is evaluated by the engine, or nobody asked for that."""

    folder: Path
    pairs: NliData
    family: str
    settings: Settings
    record: TrainingRecord
    run: NliRun | None
    negation: float | None  # the part of the pairs with negation that was learned; None for none

    @property
    def learned(self) -> str:
        return ORIGINAL if self.negation is None else NEGATION

    def tables(self) -> list[Table]:
        return [self.training_table(), *([self.accuracy_table()] if self.run is not None else [])]

    def training_table(self) -> Table:
        """One row; dev: the accuracy on the dev set in PyTorch, a fraction."""
        shown = ("learned", "seed", "epochs", "steps")
        known = {"learned": "original" if self.negation is None else "with new", "seed": self.settings.seed}
        known |= self.record.result
        row = {name: known[name] for name in shown} | {"dev": known["score"], "folder": str(self.folder)}
        dev = Column("dev", "dev", unit="%", **_PERCENT)
        return Table(
            title=f"Classifier trained on {self.pairs.source}",
            frame=pl.DataFrame([row]),
            columns=[*(Column(name, name) for name in shown), dev, Column("folder", "folder")],
            notes=["dev: accuracy in PyTorch, in percent, of the epoch that was kept", *self._on_tests()],
        )

    def _on_tests(self) -> list[str]:
        """Which rows do not count, and what makes an accuracy on dev or on held-out pairs too high."""
        return [*([CHOSEN] if self.settings.patience is not None else []), *self.pairs.notes]

    @property
    def accuracies(self) -> pl.DataFrame:
        """The figures of the evaluation, one row for each kind of pairs; all but n are fractions.

        The columns are condition, split, pairs, n, accuracy, low, high (95 % interval over pairs), and the lowest and
        the highest accuracy that the paper prints for such pairs: paper_low, paper_high, and paper as a text.
        """
        assert self.run is not None  # noqa: S101 - who asks has looked
        rows = []
        for condition, split, label in _ROWS:
            of = {"condition": condition, "split": split, "metric": "accuracy"}
            for found in self.run.summary.filter(~COMPARES, **of).to_dicts():
                is_all_new = (condition, split) == (NEW, ALL)
                name = f"{label} {'new' if self.negation is None else 'held out'}" if is_all_new else label
                row = {"condition": condition, "split": split, "pairs": name, "n": found["n"]}
                row |= {"accuracy": found["value"], "low": found["low"], "high": found["high"]}
                rows.append(row | self._paper(condition, split))
        return pl.DataFrame(rows, infer_schema_length=None)

    def accuracy_table(self) -> Table:
        """The accuracies beside those of the paper's Table 7, or of its Table 8 with the new pairs."""
        notes = ["paper: Table 7 for models of this architecture"]
        if self.negation is not None:
            notes = ["paper: Table 8 as section 6.2 quotes it, lowest and highest of its three models"]
            if without := published("nli")[self.pairs.source]["held_out"].get(ORIGINAL):
                notes.append(f"paper, all held out, without the new pairs in the training: {_span(without)}")
        if self.negation is not None and self.negation != 0.7:
            notes.append(f"ours is trained with {100 * self.negation:.0f} % of the new pairs, the paper's with 70 %")
        return Table(
            title=f"Accuracy on {self.pairs.source} after training (%)",
            frame=self.accuracies,
            columns=[
                *(Column(name, name, wrap=False) for name in ("pairs", "n")),
                Column("accuracy", "accuracy", low="low", high="high", **_PERCENT),
                Column("paper", "paper", wrap=False),
            ],
            notes=[*notes, "95 % intervals over pairs, of one seed", *self._on_tests()],
        )

    def document(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "task": self.pairs.source,
            "negation": self.negation,
            "settings": asdict(self.settings),
            "data": self.pairs.identity,
            "shared_sentences": self.pairs.shared,
            "epoch_chosen_on_dev": self.settings.patience is not None,
            "learned": self.learned,
            **self.record.result,
            "accuracy": self.accuracies.to_dicts() if self.run is not None else [],
        }

    def closing(self) -> str:
        folder = shlex.quote(str(self.folder))
        then = f"negengine show {folder}/nli --failed" if self.run else f"negengine export {folder} -o {folder}/onnx"
        return f"{self.folder}: the classifier is written; next, `{then}`"

    def _paper(self, condition: str, split: str) -> dict[str, Any]:
        """What the paper prints for such pairs after the same training; equal ends where it is one accuracy."""
        paper, source = published("nli"), self.pairs.source
        ends: Sequence[float] = ()
        if self.negation is None and self.family in paper["figures"]:
            ends = [paper["figures"][self.family][source][condition][split]["accuracy"]] * 2
        elif self.negation is not None and (condition, split) == (NEW, ALL):
            ends = paper[source]["held_out"][NEGATION]
        if not ends:
            return dict.fromkeys(("paper_low", "paper_high", "paper"))
        low, high = map(fraction, ends)
        return {"paper_low": low, "paper_high": high, "paper": _span(ends)}


def _span(ends: Sequence[float]) -> str:
    """In percent, as the paper prints them."""
    return "-".join(f"{end:.1f}" for end in dict.fromkeys(ends))


def pair_encoder(tokenizer: PreTrainedTokenizerFast, max_length: int) -> Callable[[Sequence[Example]], Batch]:
    """A function that encodes pairs for the model, padded to the longest one of a batch.

    A pair of more than `max_length` tokens is truncated as the engine does it: one token after another is removed from
    the text that is longer at that moment.
    """

    def encode(examples: Sequence[Example]) -> Batch:
        texts, hypotheses, labels = zip(*examples, strict=True)
        given = {"truncation": "longest_first", "max_length": max_length, "padding": True, "return_tensors": "pt"}
        return {**tokenizer(list(texts), list(hypotheses), **given), "labels": torch.tensor(labels)}

    return encode


def accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Mapping[str, float]:
    """The share of pairs whose label is right, from logits [n, labels] and labels [n]."""
    return {"accuracy": float((logits.argmax(axis=1) == labels).mean())}
