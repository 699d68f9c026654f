"""`negengine bench lama|diagnostics|gh22|nli`: our command against the paper's own program and against PyTorch.

    the paper's program     as its authors wrote it, with the model of today's transformers, on a part of the items;
                            `systems/papers/` says how
    PyTorch, loop           the same results from batches of the size that is fastest, sorted by length and padded;
                            for `nli` in the order of the file
    PyTorch, mask row       the same, but the head sees the mask's row alone (`nli`: sorted by length)
    ours                    the whole command in one process, with its run folder and all results
    …, model alone          the models alone, on ids that are there already

`a second` counts everything from texts to results; `with opening` adds the import of libraries and the loading.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.basics.choices import Precision
from ..engine.basics.errors import InputError
from ..engine.experiments.diagnostics.diagnostics import Diagnostics
from ..engine.experiments.diagnostics.files import read_diagnostics
from ..engine.experiments.lama.facts import Facts, read_facts
from ..engine.experiments.lama.lama import SAME_AS_AFFIRMATIVE, Lama
from ..engine.experiments.nli.nli_pairs import SOURCES, read_benchmark
from ..engine.inference.exported import ExportedModel
from ..engine.runs.stage import changed
from ..engine.text.tokenizer import NOT_ONE_TOKEN
from .comparison import Comparison, Effort, Judge, Measurement, largest_difference, share_of_same
from .made import made_diagnostics, made_facts, made_pairs, one_token_verbs
from .shapes import prepare_classifier
from .subject import Measurements, Subject
from .systems.papers import ALONE, LOOP, PAPER, ROW, diagnostics, gh22, lama, nli
from .systems.papers.masked import LoopAlone, OwnAlone
from .systems.system import System

EFFORT = Effort(rounds=3, seconds=20, tried=64, fewest=64)
Items = Callable[[ExportedModel, Path | None], Callable[[int], Any]]
"""The model, the data or None for made items → number of items → the items."""


def _facts(exported: ExportedModel, path: Path | None) -> Callable[[int], lama.Queries]:
    """Facts that count for the model, in a random order."""
    read = made_facts(one_token_verbs(exported)) if path is None else read_facts([path]).facts
    facts = [replace(fact, misprimed={}) for fact in read if fact.negated is not None]
    facts = [fact for fact in facts if (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE]
    tokens = changed(Lama(), facts=Facts(tuple(facts), {})).stage(exported).tokens
    gold = np.array([tokens[fact.affirmative, fact.gold] for fact in facts])
    counting = _mixed_up([row for row, token in enumerate(gold.tolist()) if token != NOT_ONE_TOKEN])
    if not counting:
        raise InputError(f"{path}: no fact has a negation, and an answer that is one token of {exported.name}")
    every = lama.Queries(tuple(facts[row] for row in counting), gold[counting].astype(np.int64))
    return every.head


def _items(exported: ExportedModel, path: Path | None) -> Callable[[int], diagnostics.Items]:
    rows = made_diagnostics(one_token_verbs(exported)) if path is None else read_diagnostics(path)
    stage = changed(Diagnostics(), read=rows).stage(exported)
    items = stage.experiment.items
    ids = {one: stage.tokens[one.text, one.word] for item in items for one in item.completions}
    whole = [item for item in items if all(ids[one] != NOT_ONE_TOKEN for one in item.completions)]
    every = diagnostics.Items(tuple(whole[row] for row in _mixed_up(range(len(whole)))), ids)
    return every.head


def _pairs(_exported: ExportedModel, path: Path | None) -> Callable[[int], nli.Judged]:
    by_source = {
        source: made_pairs(source) if path is None else read_benchmark(path / f"{source}.txt", source).pairs
        for source in SOURCES
    }
    together = [(source, pair) for source, pairs in by_source.items() for pair in pairs]
    return nli.Judged(tuple(together[row] for row in _mixed_up(range(len(together))))).head


def _mixed_up(rows: Sequence[int]) -> list[int]:
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[place] for place in order.tolist()]


def _sentences(names: Any) -> Callable[[], list[System[Any]]]:
    return lambda: [names.Paper(), names.Loop(), names.RowLoop(), LoopAlone(), names.Own(), OwnAlone()]


def _classifiers() -> list[System[Any]]:
    own: list[System[Any]] = [nli.Own(), nli.Own(Precision.FP32), nli.OwnAlone(), nli.OwnAlone(low_precision=True)]
    return [nli.Paper(), nli.Loop(), nli.SortedLoop(), nli.LoopAlone(), *own]


def _against(judge: Judge, better_loop: str = ROW) -> Comparison:
    times = {"times paper": PAPER, "times loop": LOOP, "times better loop": better_loop}
    return Comparison(LOOP, times, judge, unjudged=ALONE)


def _measured(systems: Callable[[], list[System[Any]]], items: Items) -> Measurements:
    return lambda measured, path: [Measurement(systems(), items(measured.exported, path))]


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            "lama",
            "facts",
            _against(largest_difference),
            _measured(_sentences(lama), _facts),
            EFFORT,
            data="negated-lama",
        ),
        Subject(
            "diagnostics",
            "items",
            _against(largest_difference),
            _measured(_sentences(diagnostics), _items),
            EFFORT,
            data="lm-diagnostics",
        ),
        Subject(
            "gh22",
            "pairs",
            _against(share_of_same),
            _measured(_sentences(gh22), lambda _exported, _path: gh22.Pairs.drawn),
            replace(EFFORT, tried=8, fewest=8),  # a pair is 33 sentences
        ),
        Subject(
            "nli",
            "pairs",
            _against(share_of_same, nli.SORTED),
            _measured(_classifiers, _pairs),
            replace(EFFORT, seconds=32),  # so that the paper's 4,500 pairs are judged
            data="negation-nli",
            prepare=prepare_classifier,
        ),
    )
}
