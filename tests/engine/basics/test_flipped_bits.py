"""A flipped bit anywhere in a run is noticed; parts, sealed documents and exports have tests of their own."""

import os
import shutil

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.negation_runs import read_selected

SELECTED = {"selection.json": 3, "triplets.parquet": 5, "answers.parquet": 11}
STEPS = {**SELECTED, "run.json": 2, "select.done.json": 2, "rates.parquet": 11}


def test_a_flipped_bit_in_a_file_of_a_run_is_noticed(scored_run, tmp_path):
    run = shutil.copytree(scored_run, tmp_path / "run")
    others = {"parts", "sessions", "score.done.json", ".lock", "scores.parquet"}
    assert {path.name for path in run.iterdir()} == {*STEPS, *others}
    for name, step in STEPS.items():
        whole = (run / name).read_bytes()
        descriptor = os.open(run / name, os.O_WRONLY)
        for position in range(0, len(whole), step):
            for mask in (0x01, 0x20, 0x80, 0xFF):
                os.pwrite(descriptor, bytes([whole[position] ^ mask]), position)
                with pytest.raises(InputError, match=f"{name}: (not as negengine writes it|missing, or changed)"):
                    read_selected(run) if name in SELECTED else ng.open(run)
            os.pwrite(descriptor, whole[position : position + 1], position)
        os.close(descriptor)
    for name in ("scores.parquet", "rates.parquet", "triplets.parquet", "selection.json"):
        opened, whole = ng.open(run), (run / name).read_bytes()  # before the damage
        (run / name).write_bytes(whole[:-9] + b"x" + whole[-8:])
        with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it"):
            opened.items, opened.rates, opened.selection  # noqa: B018 - properties
        (run / name).write_bytes(whole)
    assert ng.open(run).model_name == "mini"
