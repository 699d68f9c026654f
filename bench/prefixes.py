"""Sentences that begin alike: what a causal model gains by computing their beginning once.

    python -m negengine.bench.prefixes pythia-160m-shape
    python -m negengine.bench.prefixes models/before models/after

Groups of 85 sentences of 15 tokens share their first 9, as the sentences of one [NAME, PROF] pair do. If the groups
take turns, no neighbours begin alike, so each sentence is computed whole. Both orders of all models run alternately, by
one thread, and the CPU time that this process takes is counted: other programs on the machine do not count.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ..engine.inference.causal import CausalLM
from ..engine.inference.exported import ExportedModel, load_exported
from .shapes import SHAPES, Shape, cache_folder, prepare

SENTENCES, LENGTH, SHARED = 85, 15, 9  # of a group; tokens of a sentence, and of those the first ones that are shared


def prefix_times(models: Mapping[str, ExportedModel], groups: int, rounds: int) -> list[dict[str, Any]]:
    """Measure exported models.

    Args:
        models: name → causal model.
        groups: how many groups of sentences there are, at least 2.
        rounds: how often each order of each model runs.

    Returns:
        A row for each model: milliseconds of CPU time a sentence in both orders, medians; the largest difference of a
        logit between them.
    """
    rows = np.arange(groups * SENTENCES)
    orders = {"in groups": rows, "in turns": rows.reshape(groups, SENTENCES).T.ravel()}
    times: dict[tuple[str, str], list[float]] = {(name, order): [] for name in models for order in orders}
    logits: dict[tuple[str, str], NDArray[np.float32]] = {}
    opened = {name: CausalLM(exported, threads=1) for name, exported in models.items()}
    for number in range(rounds + 1):  # the first one warms up
        for name, order in times if number % 2 else reversed(times):
            model = opened[name]
            ids = _sentences(model.exported, groups)[orders[order]]
            position = np.full(len(ids), LENGTH, np.int32)
            started = time.process_time()
            found = model.decide(ids, position, ids[:, 0])
            taken = time.process_time() - started
            if number:
                times[name, order].append(taken)
            logits[name, order] = found.logits[np.argsort(orders[order])]
    return [
        {
            "model": name,
            **{order: 1e3 * float(np.median(times[name, order])) / (groups * SENTENCES) for order in orders},
            "difference": float(np.abs(logits[name, "in groups"] - logits[name, "in turns"]).max()),
        }
        for name in models
    ]


def _sentences(exported: ExportedModel, groups: int) -> NDArray[np.int32]:
    """Random tokens and a mask, int32 [groups × SENTENCES, LENGTH + 1]; those of a group begin alike."""
    random = np.random.default_rng(1)
    shared = random.integers(0, exported.vocab_size, (groups, SHARED)).repeat(SENTENCES, axis=0)
    rest = random.integers(0, exported.vocab_size, (groups * SENTENCES, LENGTH - SHARED))
    masks = np.full((groups * SENTENCES, 1), exported.tokenizer.mask_id)
    return np.concatenate([shared, rest, masks], axis=1).astype(np.int32)


def found_models(names: Sequence[str], cache: Path, shapes: Mapping[str, Shape] = SHAPES) -> dict[str, ExportedModel]:
    """Exported models by name: shapes with random weights, or folders."""
    return {
        name: prepare(name, cache, shapes).exported if name in shapes else load_exported(Path(name)) for name in names
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| model | in turns, ms | in groups, ms | times as fast | largest difference of a logit |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = row["in turns"] / row["in groups"]
        figures = f"{row['in turns']:.2f} | {row['in groups']:.2f} | {ratio:.2f} | {row['difference']:.1e}"
        lines.append(f"| {row['model']} | {figures} |")
    return "\n".join(lines)


def main(
    names: Annotated[list[str], typer.Argument(metavar="MODEL...", help="A shape, or the folder of a causal export.")],
    groups: Annotated[int, typer.Option(min=2, help="Groups of sentences.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="How often each order runs.")] = 5,
) -> None:
    """Print the CPU time of one thread for a sentence, in Markdown."""
    typer.echo(table(prefix_times(found_models(names, cache_folder()), groups, rounds)))


if __name__ == "__main__":
    typer.run(main)
