"""The run folder of a probe: parts of items, then items.parquet and summary.parquet."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ..inference.exported import ExportedModel
from ..runs.folder import RunFolder
from ..runs.progress import metered

ITEMS_FILE, SUMMARY_FILE = "items.parquet", "summary.parquet"


def run(
    folder: Path,
    stage: str,
    identity: Mapping[str, Any],
    sizes: Sequence[int],
    score: Callable[[int], pl.DataFrame],
    summarise: Callable[[pl.DataFrame], pl.DataFrame],
    *,
    about: Mapping[str, Any] | None = None,
    session: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Score what is not scored yet, and write the results.

    Args:
        folder: the run folder.
        stage: the probe's name.
        identity: what must be the same for two runs to give the same items: model, data, seed.
        sizes: how many sentences each part has.
        score: number of a part → its items.
        summarise: all items → the rows of summary.parquet.
        about: what else run.json tells of the run.
        session: what run.json tells of this process.

    Returns:
        The summary.

    Raises:
        InputError: the folder was made with another identity, is in use, or cannot be written.
    """
    with RunFolder.create_or_resume(folder, stage, identity, parts=len(sizes), about=about, session=session) as store:
        if store.is_finished:
            return pl.read_parquet(folder / SUMMARY_FILE)
        todo = sum(sizes[number] for number in store.missing_parts)
        with metered(stage, sum(sizes), sum(sizes) - todo) as meter:
            for number in store.missing_parts:
                store.write_part(number, score(number), {})
                meter.advance(sizes[number])
        items = store.read_parts()
        summary = summarise(items)
        store.finish_stage({ITEMS_FILE: items, SUMMARY_FILE: summary})
        return summary


def model_identity(exported: ExportedModel) -> dict[str, Any]:
    """The model's part of an identity."""
    return {"model": exported.name, "model sha256": exported.sha256}
