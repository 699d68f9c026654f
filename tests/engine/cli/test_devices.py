"""Several devices: they share a run, and what one of them cannot do ends it with one line."""

import pytest
from negengine.engine.runs.record import read_run


def test_several_devices_share_a_run_and_give_the_bytes_of_one(mini, small_lexicon, selected_run, command, tmp_path):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "--device", "cpu,cpu", "-v")
    assert done.status == 0, done.err
    assert "cpu (1 of 2): " in done.err
    assert "cpu (2 of 2): " in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "triplets.parquet").read_bytes() == (selected_run / "triplets.parquet").read_bytes()
    (session,) = read_run(tmp_path / "run").stages["select"].sessions
    assert [worker["device"] for worker in session.workers] == ["cpu", "cpu"]


def test_a_device_that_is_not_there_is_refused_at_once(mini, small_lexicon, command, tmp_path, no_session):
    done = command("select", mini.folder, "--lexicon", small_lexicon, "-o", "run", "--device", "cpu,cuda:7")
    assert done.status == 2
    assert done.said.startswith("negengine: --device cuda:7: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "2"], "negengine: --workers 2: this option belongs to --ray; add --ray local, or an address"),
        (["--ray", "nowhere"], "negengine: --ray nowhere: give local, auto, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_wrong_options_for_a_cluster_are_refused_at_once(options, said, mini, command, tmp_path, no_session):
    done = command("select", mini.folder, "-o", "run", *options)
    assert done.status == 2
    assert done.said.startswith(said)
    assert not list(tmp_path.iterdir())
