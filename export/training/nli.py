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
from ...engine.experiments.nli.nli import CHOSEN, NliRun, nli
from ...engine.experiments.nli.nli_pairs import SOURCES, scheme_of
from ...engine.library.model import export
from ...engine.library.shown import Shown
from ...engine.library.training_options import NliOptions
from ...engine.requests.items import ORIGINAL
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
    return NliTraining(options.output, pairs, settings, record, run, options.negation)


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
    settings: Settings
    record: TrainingRecord
    run: NliRun | None
    negation: float | None  # the part of the pairs with negation that was learned; None for none

    def tables(self) -> list[Table]:
        return [self.training_table(), *(self.run.tables() if self.run else [])]

    def remarks(self) -> list[str]:
        return self.run.remarks() if self.run else []

    def training_table(self) -> Table:
        """One row; dev: the accuracy on the dev set in PyTorch, a fraction."""
        shown = ("learned", "seed", "epochs", "steps")
        known = {"learned": "original" if self.negation is None else "with new", "seed": self.settings.seed}
        known |= self.record.result
        row = {name: known[name] for name in shown} | {"dev": known["score"], "folder": str(self.folder)}
        dev = Column("dev", "dev", unit="%", decimals=1, scale=100, wrap=False)
        chosen = [CHOSEN] if self.settings.patience is not None else []
        return Table(
            title=f"Classifier trained on {self.pairs.source}",
            frame=pl.DataFrame([row]),
            columns=[*(Column(name, name) for name in shown), dev, Column("folder", "folder")],
            notes=["dev: accuracy in PyTorch, in percent, of the epoch that was kept", *chosen, *self.pairs.notes],
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
            "learned": ORIGINAL if self.negation is None else NEGATION,
            **self.record.result,
            "accuracy": self.run.summary.filter(~COMPARES, metric="accuracy").to_dicts() if self.run else [],
        }

    def closing(self) -> str:
        folder = shlex.quote(str(self.folder))
        then = f"negengine show {folder}/nli --failed" if self.run else f"negengine export {folder} -o {folder}/onnx"
        return f"{self.folder}: the classifier is written; next, `{then}`"


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
