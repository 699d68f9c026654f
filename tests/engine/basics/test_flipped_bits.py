"""A flipped bit anywhere in a run is noticed; parts, sealed documents and exports have tests of their own."""

import os
import shutil

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.negation_runs import read_selected

SELECTED = {"selection.json", "triplets.parquet", "answers.parquet"}
STEPS = {"run.json": 2, "select.done.json": 2, "selection.json": 3, "triplets.parquet": 5}
STEPS |= {"answers.parquet": 11, "rates.parquet": 11}
OTHERS = {"score.done.json", ".lock", "scores.parquet"}


@pytest.fixture
def run(scored_run, tmp_path):
    return shutil.copytree(scored_run, tmp_path / "run")


def test_a_flipped_bit_in_a_file_of_a_run_is_noticed(run):
    assert {path.name for path in run.iterdir() if path.is_file()} == {*STEPS, *OTHERS}
    for name, step in STEPS.items():
        whole = (run / name).read_bytes()
        descriptor = os.open(run / name, os.O_WRONLY)
        for position in range(0, len(whole), step):
            for mask in (0x01, 0x20, 0x80, 0xFF):
                os.pwrite(descriptor, bytes([whole[position] ^ mask]), position)
                with pytest.raises(
                    InputError, match=rf"{name}: (not as negengine writes it|missing, or changed since)"
                ):
                    read_selected(run) if name in SELECTED else ng.open(run)
            os.pwrite(descriptor, whole[position : position + 1], position)
        os.close(descriptor)
    assert ng.open(run).model_name == "mini"


@pytest.mark.parametrize("name", ["scores.parquet", "rates.parquet", "triplets.parquet", "selection.json"])
def test_results_are_compared_again_when_they_are_read(run, name):
    opened = ng.open(run)  # before the damage
    damaged = bytearray((run / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (run / name).write_bytes(damaged)
    with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it"):
        opened.items, opened.rates, opened.selection  # noqa: B018 - properties
