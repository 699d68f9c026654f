"""`negengine nli train`: from a checkpoint and pairs to classifiers, and to their accuracies beside the paper's."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....engine.api.load import export
from ....engine.choices import Task
from ....engine.commands.train_command import TrainingOptions
from ....engine.errors import InputError
from ....engine.experiments.nli.labels import SOURCES
from ....engine.experiments.nli.runs import NliRun, nli
from ....engine.runs.progress import Reporter
from ...tasks.text_classification import TASK
from ...trace import optimum_config
from ..base import Base
from ..folder import hold_several
from ..run import Kind, settings_of, train
from ..settings import Place, Settings
from .data import NliData, read_data
from .held_out import FOLDER as HELD_OUT
from .held_out import write_held_out
from .job import nli_job
from .paper import paper_settings, source_of
from .result import NliTraining
from .trained import NEGATION, ORIGINAL, Planned, Trained, planned

NAME = "nli train"
ONNX, RUN = "onnx", "nli"  # folders of an evaluated classifier: its export, and the engine's run
_MOST_SEEDS = 1000


def train_nli(
    model: str,
    options: TrainingOptions,
    *,
    task: str,
    data: Path | None = None,
    negation: float | None = None,
    negation_data: Path | None = None,
    new_pooler: bool = False,
    evaluate: bool = False,
) -> NliTraining:
    """Train classifiers of sentence pairs (Hossain et al. 2020, sections 6.1 and 6.2).

    Args:
        model: The checkpoint to start from: a hub id, a local folder, or `mini`.
        options: Of all trainings. What is not given is the paper's.
        task: rte, snli or mnli.
        data: The folder with GLUE's train.tsv and dev.tsv; None to take them from the hub.
        negation: The part of the pairs with negation to learn from; the others are held out.
        negation_data: Their folder; None for where `data get` put them.
        new_pooler: Whether a pooler that the checkpoint lacks may begin with random weights.
        evaluate: Whether to export each classifier and test it by the engine.

    Returns:
        The classifiers; with `evaluate` their accuracies, those of the paper, and with several seeds the test between
        training with and without negation.

    Raises:
        InputError: An option, a file or the checkpoint is wrong; the folder belongs to something else; memory or disk
            do not suffice.
    """
    source = source_of(task)
    if negation_data is not None and negation is None and not evaluate:
        raise InputError("--negation-data: give --negation too, such as --negation 0.7, or --evaluate")
    if options.seeds is not None and options.seeds > _MOST_SEEDS:
        raise InputError(f"--seeds {options.seeds}: give at most {_MOST_SEEDS:,}")
    reporter = Reporter(verbose=options.verbose, silent=not options.progress)
    place = Place.find(options.device, options.threads)
    labels = [str(label) for label in SOURCES[source]]
    base = Base.find(
        model,
        TASK.head,
        labels,
        revision=options.revision,
        allow_pickle=options.allow_pickle,
        new_pooler=new_pooler,
    )
    if evaluate:
        optimum_config(base.name, base.config, TASK.head.task)  # fails before the training
    paper = paper_settings(source, base.config.model_type)
    kind = Kind(NAME, {**paper, "max_length": min(paper["max_length"], base.longest)})
    settings = settings_of(kind, options, place)
    pairs = read_data(
        source,
        data,
        fraction=negation,
        benchmark=negation_data,
        limit=options.limit,
        seed=options.seed,
        say=reporter.say,
    )
    wanted = planned(options.output, negation=negation is not None, seed=options.seed, seeds=options.seeds)
    with nullcontext() if options.seeds is None else hold_several(options.output, (ORIGINAL, NEGATION, HELD_OUT)):
        done = [_train(one, kind, base, pairs, settings, place, options, reporter) for one in wanted]
        held_out = write_held_out(options.output, source, pairs.negation.held_out) if pairs.negation else None
        if evaluate:
            done = [_evaluated(one, source, pairs, settings, held_out or negation_data, options) for one in done]
    return NliTraining(options.output, source, base.config.model_type, settings, tuple(done), negation)


def _train(
    one: Planned,
    kind: Kind,
    base: Base,
    pairs: NliData,
    settings: Settings,
    place: Place,
    options: TrainingOptions,
    reporter: Reporter,
) -> Trained:
    with_negation = one.condition == NEGATION
    if options.seeds is not None:
        reporter.say(f"seed {one.seed}, {'with' if with_negation else 'without'} pairs with negation: {one.folder}")
    own = replace(settings, seed=one.seed)
    learned = pairs.examples(with_negation=with_negation)
    record = train(
        kind,
        base,
        lambda: nli_job(base, learned, pairs.dev, own.max_length),
        pairs.identity_of(with_negation=with_negation),
        own,
        place,
        one.folder,
        options,
        reporter,
    )
    return Trained(one, record)


def _evaluated(
    one: Trained, source: str, pairs: NliData, settings: Settings, new: Path | None, options: TrainingOptions
) -> Trained:
    """The classifier with its evaluation: exported, and run on the dev set and on pairs with negation."""
    folder = one.planned.folder
    exported = export(str(folder), folder / ONNX, task=Task.TEXT_CLASSIFICATION, progress=options.progress)
    given: dict[str, Any] = {"command": options.command} if options.command else {}
    run = nli(
        exported,
        data=new,
        source=source,
        original={source: pairs.dev_file},
        max_length=settings.max_length,
        output=folder / RUN,
        progress=options.progress,
        verbose=options.verbose,
        **given,
    )
    assert isinstance(run, NliRun)  # noqa: S101 - no shard was asked for
    return replace(one, run=run)
