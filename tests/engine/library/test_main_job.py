"""The main job with the library: model, selection, scores, and how they show themselves."""

import negengine as ng
import pytest
from negengine.engine.runs.executors import ThisProcess


@pytest.fixture
def model(mini):
    return ng.load(mini.folder, device="cpu", precision="fp32")


def test_runs_are_frames_tables_and_pages_of_a_notebook(selected_run, scored_run, tmp_path):
    run, scores = ng.open(selected_run), ng.open(scored_run)
    assert run.triplets.columns == ["triplet", "name", "gender", "pronoun", "profession", "verb"]
    assert "6. Selected triplets" in str(run)
    assert len(scores.items) == 5 * len(run.triplets)
    assert scores.rates["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]
    assert "CpTn" in str(scores)
    assert scores.remarks()
    assert str(scores).endswith(scores.remarks()[-1])
    assert scores._repr_html_().count("<table") == 2
    assert repr(scores) == f"ScoresRun(folder={scored_run!r})"
    with pytest.raises(ng.InputError, match="nowhere is not a run folder"):
        ng.open(tmp_path / "nowhere")


def test_an_executor_is_a_value_beside_the_run_and_progress_can_be_silenced(
    model, small_lexicon, selected_run, tmp_path, capfd
):
    started = []

    class Counting(ThisProcess):
        def start(self, stage, options, say):
            started.append(stage.name)
            return super().start(stage, options, say)

    executor = Counting(model.devices[0])
    run = ng.select(model, lexicon=small_lexicon, output=tmp_path / "run", executor=executor, progress=False)
    assert started == ["select"]
    assert run.triplets.equals(ng.open(selected_run).triplets)
    assert capfd.readouterr() == ("", "")
    ng.select(model, lexicon=small_lexicon, output=tmp_path / "other", progress=True)
    out, err = capfd.readouterr()
    assert (out, "144" in err) == ("", True)
