"""`negengine nli train`: from a checkpoint and pairs to classifiers, and to their accuracies beside the paper's."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import to_builtins
from numpy.typing import NDArray
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ...engine.basics.choices import Task
from ...engine.basics.errors import InputError
from ...engine.experiments.nli.nli import NliRun, nli
from ...engine.experiments.nli.nli_pairs import SOURCES, scheme_of
from ...engine.library.model import export
from ...engine.library.training_options import NliOptions
from ...engine.requests.items import ORIGINAL
from ...engine.runs.progress import Reporter
from ..tasks import TEXT_CLASSIFICATION
from ..trace import exporter_of
from .base import Base
from .fit import Batch, Job, train
from .folder import hold_several
from .nli_pairs import HELD_OUT, Example, NliData, read_data, write_held_out
from .nli_tables import NEGATION, NliTraining, Trained
from .settings import Place, settings_of

ONNX, RUN = "onnx", "nli"  # folders of an evaluated classifier: its export, and the engine's run
FAMILY = "bert"  # whose settings the families get that the paper does not have
_PAPER: dict[str, Any] = tomllib.loads((Path(__file__).parent / "nli.toml").read_text("utf-8"))


def train_nli(options: NliOptions) -> NliTraining:
    """Train classifiers of sentence pairs (Hossain et al. 2020, sections 6.1 and 6.2).

    One classifier goes to `options.output` itself. Several seeds get a folder each; with `negation`, each seed is
    trained without these pairs, too, so that the two can be compared.

    Raises InputError if an option, a file or the checkpoint is wrong; the folder belongs to something else; memory or
    disk do not suffice.
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
    encode = pair_encoder(base.tokenizer, settings.max_length)
    about = {"hub": to_builtins(pairs.hub)} if pairs.hub else None
    conditions = (ORIGINAL,) if options.negation is None else (ORIGINAL, NEGATION)
    planned = [(options.output, conditions[-1], options.seed)]  # folder, condition and seed of each classifier
    if options.seeds is not None:
        planned = [
            (options.output / condition / f"seed-{number}", condition, number)
            for number in range(options.seed, options.seed + options.seeds)
            for condition in conditions
        ]
    done = []
    with nullcontext() if options.seeds is None else hold_several(options.output, (ORIGINAL, NEGATION, HELD_OUT)):
        for folder, condition, seed in planned:
            added = condition == NEGATION
            if options.seeds is not None:
                reporter.say(f"seed {seed}, {'with' if added else 'without'} pairs with negation: {folder}")
            job = partial(Job, pairs.examples(with_negation=added), pairs.dev, encode, accuracy)
            data, own_seed = pairs.identity_of(with_negation=added), replace(settings, seed=seed)
            here = replace(options, output=folder, seed=seed)
            record = train("nli train", base, job, data, own_seed, place, here, reporter, about)
            done.append(Trained(folder, condition, seed, record))
        held_out = write_held_out(options.output, source, pairs.negation.held_out) if pairs.negation else None
        if options.evaluate:
            new = held_out or options.negation_data
            done = [_evaluated(one, new, pairs, settings.max_length, options) for one in done]
    return NliTraining(options.output, pairs, base.config.model_type, settings, tuple(done), options.negation)


def _evaluated(one: Trained, new: Path | None, pairs: NliData, max_length: int, options: NliOptions) -> Trained:
    """The classifier with its evaluation: exported, and run on the dev set and on pairs with negation."""
    exported = export(str(one.folder), one.folder / ONNX, task=Task.TEXT_CLASSIFICATION, progress=options.progress)
    given: dict[str, Any] = {"progress": options.progress, "verbose": options.verbose, "max_length": max_length}
    if options.command:
        given["command"] = options.command
    original = {pairs.source: pairs.dev_file}
    run = nli(exported, data=new, source=pairs.source, original=original, output=one.folder / RUN, **given)
    assert isinstance(run, NliRun)  # noqa: S101 - no shard was asked for
    return replace(one, run=run)


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
