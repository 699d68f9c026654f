"""The main job with the library: model, selection, scores, and how they show themselves."""

import shutil

import negengine as ng
import polars as pl
import pytest
from negengine.engine.runs.executors import ThisProcess


@pytest.fixture
def model(mini):
    return ng.load(mini.folder, device="cpu", precision="fp32")


@pytest.fixture
def no_session(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a session was opened")

    monkeypatch.setattr("onnxruntime.InferenceSession", refuse)


def test_selection_and_scores_are_frames(selected_run, scored_run):
    run = ng.open(selected_run)
    assert run.folder == selected_run
    assert run.triplets.columns == ["triplet", "name", "gender", "pronoun", "profession", "verb"]
    scores = ng.open(scored_run)
    assert len(scores.items) == 5 * len(run.triplets)
    assert scores.rates["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]
    assert isinstance(scores.rates, pl.DataFrame)


def test_a_run_prints_itself_readably_and_as_tables_in_a_notebook(selected_run, scored_run):
    assert "6. Selected triplets" in str(ng.open(selected_run))
    scores = ng.open(scored_run)
    assert "CpTn" in str(scores)
    assert scores._repr_html_().count("<table") == 2
    assert repr(scores) == f"ScoresRun(folder={scored_run!r})"


def test_progress_can_be_silenced(model, small_lexicon, tmp_path, capfd):
    ng.select(model, lexicon=small_lexicon, output=tmp_path / "run", progress=False)
    assert capfd.readouterr() == ("", "")
    ng.select(model, lexicon=small_lexicon, output=tmp_path / "other", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "144" in err


def test_an_executor_is_a_value_beside_the_run(model, small_lexicon, selected_run, tmp_path):
    started = []

    class Counting(ThisProcess):
        def start(self, stage, options, say):
            started.append(stage.name)
            return super().start(stage, options, say)

    executor = Counting(model.devices[0])
    run = ng.select(model, lexicon=small_lexicon, output=tmp_path / "run", executor=executor, progress=False)
    assert started == ["select"]
    assert run.triplets.equals(ng.open(selected_run).triplets)


def test_scores_go_beside_the_selection_or_where_they_are_sent(model, selected_run, scored_run, tmp_path):
    scores = ng.score(ng.open(selected_run), model=model, output=tmp_path / "scores", progress=False)
    assert scores.folder == tmp_path / "scores"
    assert (tmp_path / "scores" / "scores.parquet").read_bytes() == (scored_run / "scores.parquet").read_bytes()


def test_another_model_does_not_score(model, selected_run, tmp_path, no_session):
    shutil.copytree(model.exported.folder, tmp_path / "other")
    (tmp_path / "other" / "export.json").unlink()
    with pytest.raises(ng.InputError, match="export"):
        ng.score(selected_run, model=tmp_path / "other")


def test_what_is_not_a_run_is_told(tmp_path):
    with pytest.raises(ng.InputError, match="nowhere is not a run folder"):
        ng.open(tmp_path / "nowhere")
