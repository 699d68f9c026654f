"""`negengine bench lama|diagnostics|gh22|nli`: our command against the paper's own program and against PyTorch.

    the paper's program     as its authors wrote it, with the model of today's transformers, on a part of the items;
                            `systems/papers/` says how
    PyTorch, loop           the same results from batches of the size that is fastest, sorted by length and padded;
                            for `nli` in the order of the file
    PyTorch, mask row       the same, but the head sees the mask's row alone (`nli`: sorted by length)
    ours                    the whole command in one process, with its run folder and all results
    …, model alone          the models alone, on ids that are there already

So three times are told apart: `items/s` counts everything from texts to results, `with opening` adds what the process
took to import its libraries and to load the model, and the rows of models alone leave everything else away.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.choices import Precision
from ..engine.datasets.sources import find
from ..engine.errors import InputError
from ..engine.inference.device import CPU, cpu_threads
from ..engine.inference.exported import ExportedModel
from ..engine.probes.diagnostics.files import read_diagnostics
from ..engine.probes.diagnostics.stage import DiagnosticsStage
from ..engine.probes.lama.facts import Facts, read_facts
from ..engine.probes.lama.stage import SAME_AS_AFFIRMATIVE, Lama
from ..engine.probes.nli.labels import SOURCES
from ..engine.probes.nli.pairs import read_benchmark
from ..engine.sentences.tokenizer import NOT_ONE_TOKEN
from ..engine.tables import Column, Table
from .comparison import Comparison, Effort, comparison_table, largest_difference, measure_comparison
from .machine import describe
from .made import made_diagnostics, made_facts, made_pairs, one_token_verbs
from .rounds import Start
from .shapes import SHAPES, Shape, cache_folder, prepare, prepare_classifier
from .systems.papers import ALONE, LOOP, PAPER, ROW, diagnostics, gh22, lama, nli
from .systems.papers.masked import LoopAlone, OwnAlone
from .systems.system import Answers, System

EFFORT = Effort(rounds=3, seconds=20, tried=64, fewest=64)
MADE = "made items of the same lengths"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """One of the papers.

    Attributes:
        name: Of the command.
        unit: What its items are called.
        data: The data set that it reads; empty for none.
        systems: Makes all systems.
        items: The model, the data or None for made items → number of items → the items.
        judge: See `Comparison`.
        better_loop: The better one of the loops.
        tried: Items for finding the fastest settings, at most: a pair of `gh22` is 33 sentences.
    """

    name: str
    unit: str
    data: str
    systems: Callable[[], list[System[Any]]]
    items: Callable[[ExportedModel, Path | None], Callable[[int], Any]]
    judge: Callable[[Answers, Answers], Mapping[str, float]]
    better_loop: str = ROW
    tried: int = 64


def bench_paper(
    subject: str,
    names: Sequence[str],
    *,
    data: Path | None = None,
    effort: Effort = EFFORT,
    cache: Path | None = None,
    shapes: Mapping[str, Shape] = SHAPES,
    start: Start | None = None,
    say: Say,
) -> dict[str, Any]:
    """Measure models.

    Args:
        subject: A key of `SUBJECTS`.
        names: Names of `shapes`, or what `negengine export` takes.
        data: The paper's data; by default the copy of `negengine data`, and made items if there is none.
        effort: How much is measured.
        cache: Where checkpoints and exports are kept.
        shapes: Models with random weights.
        start: See `compare`.
        say: Receives messages, one line each.

    Returns:
        A JSON document: the machine, and for each model the systems with their figures.

    Raises:
        InputError: A model or the data do not exist.
    """
    wanted, folder, found = SUBJECTS[subject], cache or cache_folder(), []
    path = _data(wanted.data, data)
    few = min(effort.tried, wanted.tried)
    effort = replace(effort, tried=few, fewest=min(effort.fewest, wanted.tried))
    say(f"{wanted.name}: {MADE if path is None else path}" if wanted.data else f"{wanted.name}: the bundled lexicon")
    for name in names:
        measured = (prepare_classifier if subject == "nli" else prepare)(name, folder, shapes)
        times = {"times paper": PAPER, "times loop": LOOP, "times better loop": wanted.better_loop}
        comparison = Comparison(LOOP, times, wanted.judge, unjudged=ALONE)
        make = wanted.items(measured.exported, path)
        result = measure_comparison(measured, wanted.systems(), make, comparison, effort, folder, say, start)
        found.append({**result, "items": wanted.unit, "data": MADE if path is None and wanted.data else "the paper's"})
    return {"machine": describe(CPU), "threads": cpu_threads(), "subject": subject, "models": found}


def table(found: Mapping[str, Any]) -> Table:
    """The figures of one model as a table."""
    columns = [
        Column("with opening", "with opening/s", significant=3),
        Column("× paper", "times paper", decimals=2),
        Column("× loop", "times loop", decimals=2),
        Column("× better loop", "times better loop", decimals=2),
    ]
    if any("difference" in row for row in found["systems"]):
        columns.append(Column("largest difference", "difference", significant=2))
    else:
        columns.append(Column("same answers", "same", decimals=1, scale=100, unit="%"))
    title = f"{found['model']}: {found['sentences']:,} {found['items']} ({found['data']})"
    return comparison_table(found, title, columns, found["items"])


def _data(name: str, given: Path | None) -> Path | None:
    """The folder of a data set; None if it is not given and there is no copy.

    Raises:
        InputError: It is given and does not exist.
    """
    if not name:
        if given is not None:
            raise InputError(
                f"--data {given}: this benchmark reads no data; its pairs are those of the bundled lexicon"
            )
        return None
    try:
        return find(name, given)
    except InputError:
        if given is not None:
            raise
        return None


def _facts(exported: ExportedModel, path: Path | None) -> Callable[[int], lama.Queries]:
    """Facts that count for the model, in a random order."""
    read = made_facts(one_token_verbs(exported)) if path is None else read_facts([path]).facts
    facts = [replace(fact, misprimed={}) for fact in read if fact.negated is not None]
    facts = [fact for fact in facts if (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE]
    gold = Lama.plan(exported, Facts(tuple(facts), {})).gold
    counting = _mixed_up([row for row, token in enumerate(gold.tolist()) if token != NOT_ONE_TOKEN])
    if not counting:
        raise InputError(f"{path}: no fact has a negation, and an answer that is one token of {exported.name}")
    every = lama.Queries(tuple(facts[row] for row in counting), gold[counting].astype(np.int64))
    return every.head


def _items(exported: ExportedModel, path: Path | None) -> Callable[[int], diagnostics.Items]:
    """Items whose words are one token each, in a random order."""
    rows = made_diagnostics(one_token_verbs(exported)) if path is None else read_diagnostics(path)
    stage = DiagnosticsStage.plan(exported, rows)
    ids = dict(stage.ids)
    whole = [item for item in stage.items if all(ids[one] != NOT_ONE_TOKEN for one in item.completions)]
    every = diagnostics.Items(tuple(whole[row] for row in _mixed_up(range(len(whole)))), ids)
    return every.head


def _pairs(_exported: ExportedModel, path: Path | None) -> Callable[[int], nli.Judged]:
    """Pairs of all three sources, in a random order."""
    by_source = {
        source: made_pairs(source) if path is None else read_benchmark(path / f"{source}.txt", source).pairs
        for source in SOURCES
    }
    together = [(source, pair) for source, pairs in by_source.items() for pair in pairs]
    return nli.Judged(tuple(together[row] for row in _mixed_up(range(len(together))))).head


def _mixed_up(rows: Sequence[int]) -> list[int]:
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[place] for place in order.tolist()]


def _same(answers: Answers, reference: Answers) -> dict[str, float]:
    """The share of equal answers."""
    return {"same": float(np.mean(answers == reference))}


def _sentences(names: Any) -> Callable[[], list[System[Any]]]:
    """The systems of a paper whose items are sentences with a mask."""
    return lambda: [names.Paper(), names.Loop(), names.RowLoop(), LoopAlone(), names.Own(), OwnAlone()]


def _classifiers() -> list[System[Any]]:
    own: list[System[Any]] = [nli.Own(), nli.Own(Precision.FP32), nli.OwnAlone(), nli.OwnAlone(low_precision=True)]
    return [nli.Paper(), nli.Loop(), nli.SortedLoop(), nli.LoopAlone(), *own]


_MASKED = {
    "lama": ("facts", "negated-lama", lama, _facts, largest_difference),
    "diagnostics": ("items", "lm-diagnostics", diagnostics, _items, largest_difference),
    "gh22": ("pairs", "", gh22, lambda _exported, _path: gh22.Pairs, _same),
}
SUBJECTS = {
    **{
        name: Subject(name, unit, data, _sentences(module), items, judge, tried=8 if name == "gh22" else 64)
        for name, (unit, data, module, items, judge) in _MASKED.items()
    },
    "nli": Subject("nli", "pairs", "negation-nli", _classifiers, _pairs, _same, better_loop=nli.SORTED),
}
