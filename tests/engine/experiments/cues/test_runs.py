"""Runs of `cues` with a detector: shares beside those of the list, resumed and sharded runs, what is refused."""

import gzip

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_texts import TextFile
from negengine.engine.experiments.cues.cues import CuesRun, CueStage
from negengine.engine.views.cells import cells

TEXT = """\
I don't know. It rained. Nobody came, not she.
Neither she nor you was unhappy.

It rained.
You was careless, unsure.
"""


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return tmp_path / "text.txt"


@pytest.fixture
def run(detector, text, tmp_path):
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    return ng.cues(model, text, output=tmp_path / "run", progress=False)


def test_shares_of_both_detectors_side_by_side(run, text, detector):
    """Six sentences. The model: 4 with a cue; the list does not know `nor` apart, and finds `unsure` as well."""
    assert cells(run.tables()[0]) == [
        [str(text), "list of words", "6", "66.67", "50.00", "0.00", "33.33"],
        [str(text), detector.name, "6", "66.67", "33.33", "16.67", "33.33"],
    ]


def test_items_are_the_sentences_with_a_cue(run):
    rows = run.items.filter(pl.col("condition") == "model").select("item", "sentence", "cues", "kinds").rows()
    assert rows == [
        ("1.1", "I don't know.", "n't", "particle"),
        ("1.3", "Nobody came, not she.", "nobody|not", "particle|particle"),
        ("2.1", "Neither she nor you was unhappy.", "neither nor|un-", "phrase|affix"),
        ("5.1", "You was careless, unsure.", "-less", "affix"),
    ]


def test_sentences_where_the_detectors_disagree(run):
    """Both find a cue in the same four sentences here."""
    rows = run.sentences()
    assert rows["failed"].to_list() == [False] * 8
    assert set(rows["answer"]) >= {"n't", "neither nor|un-"}


def test_a_sentence_with_a_cue_of_one_detector_alone_fails(detector, tmp_path):
    (tmp_path / "text.txt").write_text("Without a coat.\nNever.\n")
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    rows = ng.cues(model, tmp_path / "text.txt", output=tmp_path / "run", progress=False).sentences()
    assert rows.select("sentence", "condition", "failed").rows() == [
        ("Without a coat.", "words", True),
        ("Never.", "words", False),
        ("Never.", "model", False),
    ]


def test_how_often_each_cue_was_found(run):
    assert run.counts()["model"] == {"n't": 1, "nobody": 1, "not": 1, "neither nor": 1, "un-": 1, "-less": 1}
    assert run.counts()["words"]["unsure"] == 1


def test_the_summary_is_counted_again(run):
    assert [recount.wrong for recount in run.recounts()] == [""] * 4
    wrong = run.summary.with_columns(value=pl.col("value") / 2)
    object.__setattr__(run, "summary", wrong)
    assert [bool(recount.wrong) for recount in run.recounts()] == [False, False, False, True]


def test_text_for_a_paper_and_the_papers_shares(run):
    assert run.methods("Hossain et al., 2020").startswith(
        "We counted the sentences that contain a negation cue (as in Hossain et al., 2020) with the detector"
    )
    assert "RTE 7.16 %" in run.remarks()[0]


@pytest.mark.parametrize("size", [1, 40])
def test_results_do_not_depend_on_the_size_of_the_parts(size, detector, text, tmp_path, run, monkeypatch):
    scan = TextFile.scan
    monkeypatch.setattr(TextFile, "scan", lambda path: scan(path, size))
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    other = ng.cues(model, text, output=tmp_path / "other", progress=False)
    assert other.items.equals(run.items)
    assert other.summary.equals(run.summary)


def test_shards_together_are_the_whole_run(detector, text, tmp_path, run, monkeypatch):
    scan = TextFile.scan
    monkeypatch.setattr(TextFile, "scan", lambda path: scan(path, 1))
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    for shard in ("1/2", "2/2"):
        ng.cues(model, text, output=tmp_path / shard[0], shard=shard, progress=False)
    merged = ng.merge([tmp_path / "1", tmp_path / "2"], output=tmp_path / "merged")
    assert isinstance(merged, CuesRun)
    assert merged.summary.equals(run.summary)
    assert merged.items.equals(run.items)


def test_a_packed_text_beside_a_plain_one(detector, text, tmp_path):
    (tmp_path / "other.txt.gz").write_bytes(gzip.compress(b"Never.\n"))
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    run = ng.cues(model, [text, tmp_path / "other.txt.gz"], output=tmp_path / "run", progress=False)
    shares = run.summary.filter((pl.col("split") == "all") & (pl.col("condition") == "model"))
    assert shares["value"].to_list() == [pytest.approx(4 / 6), 1.0]


def test_a_finished_run_is_shown_again_without_a_model(detector, text, tmp_path, run, monkeypatch):
    monkeypatch.setattr(CueStage, "open", None)
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    assert ng.cues(model, text, output=tmp_path / "run", progress=False).summary.equals(run.summary)


def test_a_changed_text_is_another_run(detector, text, tmp_path, run):
    text.write_text("Never.\n")
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    with pytest.raises(InputError, match="data sha256"):
        ng.cues(model, text, output=tmp_path / "run", progress=False)


def test_a_text_that_is_given_twice_is_refused(detector, text, tmp_path):
    model = ng.load(detector.folder, task="token-classification", device="cpu")
    with pytest.raises(InputError, match="is given twice"):
        ng.cues(model, [text, text], output=tmp_path / "run")


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [("other_labels", {}, "a cue detector has O, SINGLE"), ("detector", {"precision": "mixed"}, "--precision mixed")],
)
def test_a_model_that_cannot_find_cues_is_refused_before_the_run(request, given, options, said, text, tmp_path):
    model = ng.load(request.getfixturevalue(given).folder, task="token-classification", device="cpu", **options)
    with pytest.raises(InputError, match=said):
        ng.cues(model, text, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
