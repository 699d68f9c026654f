"""`negengine cues train`: a detector of negation cues from marked sentences, and how good it is.

The settings are those of NegBERT (Khandelwal and Sawant 2020, and the authors' code); here the learning rate falls
linearly. The encoder is DistilBERT (Sanh et al. 2019), with half of BERT's layers. The first token of each word learns
the word's label, the others none.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ...engine.basics.choices import Task
from ...engine.basics.errors import InputError
from ...engine.basics.paths import shell_command
from ...engine.experiments.cues.cue_detector import NO_TOKEN, CueDetector, WordEncoder
from ...engine.experiments.cues.cue_words import DATA, LABELS, OUTSIDE, TEST_FILES, TRAIN_FILES, cues_of, labels_of
from ...engine.experiments.data_sets.sources import find
from ...engine.experiments.finished_run import published
from ...engine.inference.devices.cpu import CPU
from ...engine.inference.exported import load_exported
from ...engine.library.shown import Shown
from ...engine.library.training_options import CueOptions
from ...engine.runs.progress import Reporter
from ...engine.views import Column, Table
from ..build import build
from ..tasks import TOKEN_CLASSIFICATION
from .base import Base
from .cue_scores import CueCounts, MarkedSentence, read_columns, score
from .fit import Batch, Job, train
from .settings import Place, settings_of

DEFAULTS = {"epochs": 60, "batch_size": 8, "learning_rate": 3e-5, "max_length": 128, "patience": 6}
_DEV_SHARE = 0.15  # of the sentences, where no dev file is given: appendix A of the paper
_SHOWN = 3  # cues in a message
EXPORTED = "onnx"  # the folder of the export in the folder of a training
PAPER = "paper: Bi-LSTM with a CRF, on CD-SCO"
ALL = "all"
_MEASURES = ("precision", "recall", "f1")
_CHOSEN = "the epoch was chosen by its F1 on dev, so this F1 on dev is on average too high"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Marked sentences in three parts."""

    train: Sequence[MarkedSentence]
    dev: Sequence[MarkedSentence]
    test: Sequence[MarkedSentence]

    @classmethod
    def read(cls, options: CueOptions) -> "Corpus":
        """Read a corpus in the columns of CD-SCO; by default CD-SCO itself, as in the paper.

        Its training and development files are learned together. `dev` is scored after each epoch; by default it is a
        random part of the sentences, which are not learned then. Raises InputError if a file is missing or bad; there
        is no cue to learn, or none to score.
        """
        files, dev, test, limit = options.files, options.dev, options.test, options.limit
        if not files:
            folder = find(DATA, options.data)
            files = [folder / name for name in TRAIN_FILES]
            test = test or [folder / name for name in TEST_FILES]
        learned, scored = _read(files), _read(dev)
        order = np.random.default_rng(options.seed).permutation(len(learned)).tolist()
        if not scored:
            several = max(1, round(_DEV_SHARE * len(learned)))
            scored = [learned[i] for i in sorted(order[:several])]
            order = order[several:]
        taken = sorted(order if limit is None else order[:limit])
        corpus = cls([learned[i] for i in taken], scored, _read(test))
        for part, sentences, given in (("train", corpus.train, files), ("dev", corpus.dev, dev or files)):
            if not any(sentence.cues for sentence in sentences):
                names = ", ".join(map(str, given))
                told = f"no cue in the {len(sentences):,} sentences of the {part} part; give more files"
                raise InputError(f"{names}: {told}")
        return corpus

    @property
    def identity(self) -> dict[str, str]:
        return {"train sha256": _digest(self.train), "dev sha256": _digest(self.dev)}

    def lost(self) -> list[str]:
        """The cues of the train part that labels cannot express, with their places: they are not learned."""
        return [
            f"{sentence.location}: {cue.name(sentence.words)}"
            for sentence in self.train
            for cue in labels_of(sentence.words, sentence.cues)[1]
        ]


def _read(files: Sequence[Path]) -> list[MarkedSentence]:
    return [sentence for path in files for sentence in read_columns(path)]


def _digest(sentences: Sequence[MarkedSentence]) -> str:
    content = [(sentence.words, [(cue.words, cue.parts) for cue in sentence.cues]) for sentence in sentences]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def train_cues(options: CueOptions) -> "CueTraining":
    """Train a detector; errors as of `Corpus.read`, `train` and `build`."""
    reporter = Reporter(verbose=options.verbose, silent=not options.progress)
    corpus, folder = Corpus.read(options), options.output
    if lost := corpus.lost():
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        reporter.say(f"{len(lost)} cues cannot be learned as labels of words: {'; '.join(lost[:_SHOWN])}{more}")
    place = Place.find(options.device, options.threads)
    given: Any = {"revision": options.revision, "allow_pickle": options.allow_pickle}
    base = Base.find(options.encoder, TOKEN_CLASSIFICATION.head, LABELS, **given)
    settings = settings_of(options, DEFAULTS, place, base.longest)
    make_job = partial(_job, corpus, base, settings.max_length)
    record = train("cues train", base, make_job, corpus.identity, settings, place, options, reporter)
    counts = {}
    if options.evaluate:  # all cues that the export finds, and those of each kind
        task, sentences = Task.TOKEN_CLASSIFICATION, corpus.test or corpus.dev
        exported = load_exported(build(str(folder), folder / EXPORTED, task=task, say=reporter.say), task=task)
        found = CueDetector(exported, CPU, threads=options.threads).find([sentence.words for sentence in sentences])
        whole, by_kind = score([sentence.cues for sentence in sentences], found)
        counts = {ALL: whole, **{str(kind): kinds for kind, kinds in by_kind.items()}}
    sizes = {"train": len(corpus.train), "dev": len(corpus.dev), "test": len(corpus.test)}
    on = "test" if corpus.test else "dev"
    return CueTraining(folder, base.name, sizes, settings.seed, record.result, counts, on)


@dataclass(frozen=True, eq=False)
class CueTraining(Shown):
    """A trained detector."""

    folder: Path
    encoder: str
    sizes: Mapping[str, int]  # part of the corpus → its sentences
    seed: int
    training: Mapping[str, Any]
    # `all` or the kind of cue → how well its export finds them; empty if that was not asked for
    evaluated: Mapping[str, CueCounts]
    on: str

    def tables(self) -> list[Table]:
        shown = ("folder", "seed", "epochs", "steps")
        row = {"folder": str(self.folder), "seed": self.seed, **self.training, "f1": self.training["score"]}
        f1 = Column("F1 on dev, %", "f1", decimals=2, scale=100, unit="%")
        sizes = ", ".join(f"{n:,} {part}" for part, n in self.sizes.items() if n)
        trained = Table(
            title=f"Detector from {self.encoder} (sentences: {sizes})",
            frame=pl.DataFrame([{name: row[name] for name in (*shown, "f1")}]),
            columns=[*(Column(name, name) for name in shown), f1],
            notes=[_CHOSEN],
        )
        if not self.evaluated:
            return [trained]
        rows = [{"detector": "ours", "cues": kind, **counts.figures()} for kind, counts in self.evaluated.items()]
        printed = published("cues")["detector"]
        rows.append({"detector": PAPER, "cues": ALL, **{name: printed[name] / 100 for name in _MEASURES}})
        schema = {"detector": pl.String, "cues": pl.String, "gold": pl.Int64, "system": pl.Int64}
        measures = {"precision": "precision, %", "recall": "recall, %", "f1": "F1, %"}
        measures |= {"precision_b": "precision B, %", "f1_b": "F1 B, %"}
        columns = [*(Column(name, name) for name in ("detector", "cues", "gold")), Column("found", "system")]
        columns += [Column(heading, name, decimals=2, scale=100, unit="%") for name, heading in measures.items()]
        found = Table(
            title=f"Cues found by the exported detector on {self.on}",
            frame=pl.DataFrame(rows, schema=schema | dict.fromkeys(measures, pl.Float64)),
            columns=columns,
            notes=[_CHOSEN] if self.on == "dev" else [],
        )
        return [trained, found]

    def remarks(self) -> list[str]:
        said = "cues are counted as the program of the *SEM 2012 shared task does it; the paper's figures hold for the "
        return [f"{said}test part of CD-SCO only"] if self.evaluated else []

    def closing(self) -> str:
        command = ["negengine", "export", str(self.folder), "--task", "token-classification"]
        if self.evaluated:
            command = ["negengine", "cues", "FILE", "--detector", str(self.folder / EXPORTED)]
        return f"{self.folder} is written; next, `{shell_command(command)}`"

    def document(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "encoder": self.encoder,
            "sentences": dict(self.sizes),
            "evaluated on": self.on,
            "epoch_chosen_on_dev": True,
            "seed": self.seed,
            "training": dict(self.training),
            "cues": {kind: counts.figures() for kind, counts in self.evaluated.items()} or None,
            "paper": published("cues")["detector"],
        }


def _job(corpus: Corpus, base: Base, max_length: int) -> Job:
    learned, scored = (examples(part, base.tokenizer, max_length) for part in (corpus.train, corpus.dev))
    collate, scores = collate_with(base.tokenizer.pad_token_id), score_with(corpus.dev, scored)
    return Job(learned, scored, collate, scores, best="F1", unit="sentences")


IGNORED = -100  # the label of a token that is not learned, as PyTorch's loss has it


@dataclass(frozen=True, eq=False)
class Example:
    """A sentence, or a piece of one that is too long."""

    ids: NDArray[np.int32]  # int32 [L], special tokens included
    labels: NDArray[np.int64]  # int64 [L], positions in `LABELS`; `IGNORED` for all tokens but the first one of a word
    first: NDArray[np.int64]  # int64 [words], the position of each word's first token; `NO_TOKEN` where it has none
    sentence: int


def examples(sentences: Sequence[MarkedSentence], tokenizer: PreTrainedTokenizerFast, max_length: int) -> list[Example]:
    """The examples of sentences, in their order; none has more than `max_length` tokens."""
    made = []
    encoder = WordEncoder(Tokenizer.from_str(tokenizer.backend_tokenizer.to_str()), max_length)
    encoded = encoder.encode([sentence.words for sentence in sentences])
    for number, (sentence, windows) in enumerate(zip(sentences, encoded, strict=True)):
        names = iter(labels_of(sentence.words, sentence.cues)[0])
        for window in windows:
            labels = np.full(len(window.ids), IGNORED, np.int64)
            for at in window.first.tolist():
                label = LABELS.index(next(names))
                if at != NO_TOKEN:
                    labels[at] = label
            made.append(Example(window.ids, labels, window.first, number))
    return made


def collate_with(padding_id: int) -> Callable[[Sequence[Example]], Batch]:
    """Examples → inputs of a model and labels, filled up to the longest one."""

    def collate(batch: Sequence[Example]) -> Batch:
        length = max(len(example.ids) for example in batch)
        ids = np.full((len(batch), length), padding_id, np.int64)
        mask, labels = np.zeros_like(ids), np.full_like(ids, IGNORED)
        for row, example in enumerate(batch):
            own = slice(len(example.ids))
            ids[row, own], mask[row, own], labels[row, own] = example.ids, 1, example.labels
        filled = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        return {name: torch.from_numpy(values) for name, values in filled.items()}

    return collate


def score_with(
    sentences: Sequence[MarkedSentence], dev: Sequence[Example]
) -> Callable[[NDArray[np.float32], NDArray[np.int64]], dict[str, float]]:
    """Logits of the dev set's examples → F1, precision and recall of its cues, as the shared task counts them."""

    def scores(logits: NDArray[np.float32], _: NDArray[np.int64]) -> dict[str, float]:
        names: list[list[str]] = [[] for _ in sentences]
        for example, own in zip(dev, logits.argmax(axis=-1), strict=True):
            names[example.sentence] += [OUTSIDE if at == NO_TOKEN else LABELS[own[at]] for at in example.first.tolist()]
        found = [cues_of(sentence.words, own) for sentence, own in zip(sentences, names, strict=True)]
        figures = score([sentence.cues for sentence in sentences], found)[0].figures()
        return {"F1": figures["f1"], "precision": figures["precision"], "recall": figures["recall"]}

    return scores
