"""Lies that no digest shows: other results, with digests, counts and run.json as the writer itself would make them."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
from negengine.engine.basics.sealed import unseal, write_sealed
from negengine.engine.runs.record import RunRecord, done_file, read_run, replace_sessions
from negengine.engine.runs.results import write_result


def reseal(path: Path, change) -> None:
    """Change a sealed document, and give it the digest of what it has become."""
    document = unseal(path.read_bytes(), dict[str, Any])
    change(document)
    write_sealed(path, document)


def remove_parts(folder: Path) -> None:
    shutil.rmtree(folder / "parts")


def lie(folder: Path, stage: str, name: str, content: Any, **counts: float) -> None:
    record = read_run(folder)
    own = record.stages[stage]
    own.done.files[name] = write_result(folder / name, content)
    own.done.counts.update(counts)
    if name == "triplets.parquet" and "score" in record.stages:
        record.stages["score"].identity["triplets sha256"] = own.files[name]
    rewrite(folder, record)


def rewrite(folder: Path, record: RunRecord) -> None:
    """Write all files of a record."""
    record.write(folder)
    for stage, own in record.stages.items():
        replace_sessions(folder, stage, own.sessions)
        done_file(folder, stage).unlink(missing_ok=True)
        if own.done is not None:
            write_sealed(done_file(folder, stage), own.done)


def changed(frame: pl.DataFrame, row: int, /, **values: Any) -> pl.DataFrame:
    """A frame with other values in one row."""
    where = pl.int_range(pl.len()) == row
    return frame.with_columns(
        pl.when(where).then(pl.lit(value, frame.schema[name])).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    )


def damage(verification: Any) -> list[str]:
    """What is damaged, in the order of the checks."""
    return [check.what for check in verification.damage]


def copy_without_parts(folder: Path, copy: Path) -> Path:
    """A copy of a finished run in which nothing but the final files can be compared."""
    shutil.copytree(folder, copy)
    remove_parts(copy)
    return copy
