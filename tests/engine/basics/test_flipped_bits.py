"""A flipped bit anywhere in a run or in export.json is noticed, or it changes nothing. It is never used silently."""

import os
import shutil
from pathlib import Path

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.negation_runs import read_selected
from negengine.engine.inference.exported import load_exported
from negengine.engine.runs.part import PartFiles
from small_stages import work

SELECTED = {"selection.json", "triplets.parquet", "answers.parquet"}
MASKS = (0x01, 0x20, 0x80, 0xFF)


def flips(path: Path, step: int = 1):
    """Damage each byte of a file in turn, in several ways; the file is whole again at the end."""
    whole = path.read_bytes()
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for position in range(0, len(whole), step):
            for mask in MASKS:
                os.pwrite(descriptor, bytes([whole[position] ^ mask]), position)
                yield position, mask
            os.pwrite(descriptor, whole[position : position + 1], position)
    finally:
        os.close(descriptor)
    assert path.read_bytes() == whole


@pytest.fixture(scope="module")
def run(scored_run, tmp_path_factory) -> Path:
    return shutil.copytree(scored_run, tmp_path_factory.mktemp("flipped") / "run")


STEPS = {"run.json": 2, "select.done.json": 2, "selection.json": 3, "triplets.parquet": 5}
STEPS |= {"answers.parquet": 11, "rates.parquet": 11}
OTHERS = {"score.done.json", ".lock", "scores.parquet"}


def test_a_flipped_bit_in_a_file_of_a_run_is_noticed(run):
    assert {path.name for path in run.iterdir() if path.is_file()} == {*STEPS, *OTHERS}
    for name, step in STEPS.items():
        for _ in flips(run / name, step):
            with pytest.raises(InputError, match=rf"{name}: (not as negengine writes it|missing, or changed since)"):
                read_selected(run) if name in SELECTED else ng.open(run)


@pytest.mark.parametrize("name", ["scores.parquet", "rates.parquet", "triplets.parquet", "selection.json"])
def test_results_are_compared_again_when_they_are_read(run, tmp_path, name):
    """A run that was opened before the damage."""
    shutil.copytree(run, tmp_path / "run")
    opened = ng.open(tmp_path / "run")
    damaged = bytearray((tmp_path / "run" / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "run" / name).write_bytes(damaged)
    with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it"):
        opened.items, opened.rates, opened.selection  # noqa: B018 - properties


@pytest.mark.parametrize("name", ["part-00001.json", "part-00001.parquet"])
def test_a_part_with_a_flipped_bit_is_done_again(tmp_path, name):
    folder = work(tmp_path)
    files = PartFiles.of(folder, "select", 1)
    for position, mask in flips(files.rows.with_name(name)):
        assert files.read() is None, (position, mask)
    assert files.read() is not None


def test_a_flipped_bit_in_export_json_is_noticed(mini, tmp_path):
    for path in mini.folder.iterdir():
        if path.name != "export.json":
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(mini.folder / "export.json", tmp_path / "export.json")
    assert load_exported(tmp_path).sha256 == mini.sha256
    for _ in flips(tmp_path / "export.json"):
        with pytest.raises(InputError, match=r"export\.json: not as negengine writes it .*; export the model again"):
            load_exported(tmp_path)


def test_a_flipped_bit_in_the_record_of_verified_files_is_never_believed(tmp_path, mini):
    """It is read as it was written, or it is ignored; it never makes a damaged file whole."""
    from negengine.engine.inference.exported import VerifiedFiles

    (tmp_path / "graph").write_bytes(b"graph")
    os.utime(tmp_path / "graph", (1_000_000, 1_000_000))
    known = VerifiedFiles(tmp_path)
    digest = known.sha256("graph")
    known.save()
    for _ in flips(tmp_path / ".verified.json"):
        assert VerifiedFiles(tmp_path).sha256("graph") == digest
