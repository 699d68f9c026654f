"""`negengine cues train`: a detector of negation cues from marked sentences, and how good it is.

The settings are those of NegBERT (Khandelwal and Sawant 2020, and the authors' code), who trained BERT on CD-SCO:
batches of 8, a learning rate of 3e-5, at most 128 tokens, at most 60 epochs, and an end after 6 epochs in which the
score on the dev set does not rise. Theirs keeps the learning rate; here it falls linearly, as in all trainings of this
package. The encoder is DistilBERT (Sanh et al. 2019): it has the vocabulary of theirs and half of its layers.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ....engine.choices import Task
from ....engine.commands.train_command import TrainingOptions
from ....engine.experiments.cues.detector import CueDetector
from ....engine.experiments.cues.labels import LABELS
from ....engine.experiments.cues.scorer import score
from ....engine.inference.device import CPU
from ....engine.inference.exported import load_exported
from ....engine.runs.progress import Reporter
from ...build import build
from ...tasks.token_classification import TASK
from ...trained import TrainingRecord
from ..base import Base
from ..job import Job
from ..run import Kind as TrainingKind
from ..run import settings_of, train
from ..settings import Place
from .corpus import Corpus
from .examples import collate_with, examples, score_with
from .result import EXPORTED, CueTraining, Evaluated, TrainedDetector

ENCODER = "distilbert-base-uncased"
TRAINING = TrainingKind(
    "cues train", {"epochs": 60, "batch_size": 8, "learning_rate": 3e-5, "max_length": 128, "patience": 6}
)
_SHOWN = 3  # cues in a message


def train_cues(
    options: TrainingOptions,
    files: Sequence[Path] = (),
    *,
    encoder: str = ENCODER,
    dev: Sequence[Path] = (),
    test: Sequence[Path] = (),
    data: Path | None = None,
    evaluate: bool = False,
) -> CueTraining:
    """Train a detector, or several with different seeds.

    Args:
        options: Of all trainings.
        files: Marked sentences in the columns of CD-SCO; by default CD-SCO itself.
        encoder: The checkpoint to start from.
        dev: Marked sentences to score after each epoch; by default 15 % of `files`.
        test: Marked sentences to evaluate on.
        data: The folder of CD-SCO, if it is elsewhere.
        evaluate: Whether to export each detector and to score its export.

    Raises:
        InputError: As for `Corpus.read`, `train` and `build`.
    """
    reporter = Reporter(verbose=options.verbose, silent=not options.progress)
    corpus = Corpus.read(files, dev, test, seed=options.seed, limit=options.limit, data=data)
    if lost := corpus.lost():
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        reporter.say(f"{len(lost)} cues cannot be learned as labels of words: {'; '.join(lost[:_SHOWN])}{more}")
    place = Place.find(options.device, options.threads)
    base = Base.find(encoder, TASK.head, LABELS, revision=options.revision, allow_pickle=options.allow_pickle)
    trained = []
    for number in range(options.seeds or 1):
        own = replace(
            options,
            seed=options.seed + number,
            output=options.output / f"seed-{options.seed + number}" if options.seeds else options.output,
        )
        record = _train(corpus, base, place, own, reporter)
        counts = _evaluate(corpus, own, reporter) if evaluate else None
        trained.append(TrainedDetector(own.output, own.seed, record.result, counts))
    sizes = {"train": len(corpus.train), "dev": len(corpus.dev), "test": len(corpus.test)}
    return CueTraining(options.output, base.name, sizes, tuple(trained), on="test" if corpus.test else "dev")


def _train(corpus: Corpus, base: Base, place: Place, options: TrainingOptions, reporter: Reporter) -> TrainingRecord:
    settings = settings_of(TRAINING, options, place)
    settings = replace(settings, max_length=min(settings.max_length, base.longest))

    def job() -> Job:
        learned, scored = (examples(part, base.tokenizer, settings.max_length) for part in (corpus.train, corpus.dev))
        return Job(
            name=base.name,
            config=base.config,
            open=base.open,
            tokenizer=base.tokenizer,
            train=learned,
            dev=scored,
            collate=collate_with(base.tokenizer.pad_token_id),
            score=score_with(corpus.dev, scored),
            best="F1",
            unit="sentences",
        )

    return train(TRAINING, base, job, corpus.identity, settings, place, options.output, options, reporter)


def _evaluate(corpus: Corpus, options: TrainingOptions, reporter: Reporter) -> Evaluated:
    """Export a detector and score what the export finds."""
    folder = build(str(options.output), options.output / EXPORTED, task=Task.TOKEN_CLASSIFICATION, say=reporter.say)
    sentences = corpus.test or corpus.dev
    exported = load_exported(folder, task=Task.TOKEN_CLASSIFICATION)
    found = CueDetector(exported, CPU, threads=options.threads).find([sentence.words for sentence in sentences])
    return Evaluated(*score([sentence.cues for sentence in sentences], found))
