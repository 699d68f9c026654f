"""Results are compared with their digests when a run is opened, and again when they are read."""

import shutil

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.negation_runs import read_selected


@pytest.mark.parametrize("name", ["triplets.parquet", "scores.parquet", "rates.parquet", "selection.json"])
def test_a_flipped_bit_in_a_result_is_noticed_also_after_the_run_was_opened(scored_run, tmp_path, name):
    run = shutil.copytree(scored_run, tmp_path / "run")
    opened, whole = ng.open(run), (run / name).read_bytes()
    (run / name).write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    for read in (lambda: (opened.items, opened.rates, opened.selection), lambda: (ng.open(run), read_selected(run))):
        with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it"):
            read()
