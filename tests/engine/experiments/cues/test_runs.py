"""Runs of `cues` with a detector: its shares and cues beside those of the list of words, and what is refused."""

import gzip

import negengine as ng
import polars as pl
import pytest
from cue_detectors import write_detector
from negengine.engine.basics.errors import InputError
from negengine.engine.views.cells import cells
from negengine.export.build import build

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
def find(detector, tmp_path):
    model = ng.load(detector.folder, task="token-classification", device="cpu")

    def run(texts, output="run", **options):
        return ng.cues(model, texts, output=tmp_path / output, progress=False, **options)

    return run


@pytest.fixture
def run(find, text):
    return find(text)


def test_a_model_with_other_labels_is_refused(once, text, tmp_path):
    labels = ("O", "B-PER", "I-PER")
    made = once("other-labels", lambda folder: build(str(write_detector(folder / "names", labels)), folder / "out"))
    model = ng.load(made / "out", task="token-classification", device="cpu")
    with pytest.raises(InputError, match="its labels are O, B-PER, I-PER; a cue detector has O, SINGLE, MULTI-B"):
        ng.cues(model, text, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_shares_cues_and_sentences_of_both_detectors(run, text, detector):
    """Six sentences. The model: 4 with a cue; the list does not know `nor` apart, and finds `unsure` as well."""
    assert cells(run.tables()[0]) == [
        [str(text), "list of words", "6", "66.67", "50.00", "0.00", "33.33"],
        [str(text), detector.name, "6", "66.67", "33.33", "16.67", "33.33"],
    ]
    rows = run.items.filter(pl.col("condition") == "model").select("item", "sentence", "cues", "kinds").rows()
    assert rows == [
        ("1.1", "I don't know.", "n't", "particle"),
        ("1.3", "Nobody came, not she.", "nobody|not", "particle|particle"),
        ("2.1", "Neither she nor you was unhappy.", "neither nor|un-", "phrase|affix"),
        ("5.1", "You was careless, unsure.", "-less", "affix"),
    ]
    assert run.counts()["model"] == {"n't": 1, "nobody": 1, "not": 1, "neither nor": 1, "un-": 1, "-less": 1}
    assert run.counts()["words"]["unsure"] == 1
    assert run.sentences()["failed"].to_list() == [False] * 8  # both find a cue in the same four sentences here
    assert "RTE 7.16 %" in run.remarks()[0]


def test_a_packed_text_beside_a_plain_one_(find, text, tmp_path):
    (tmp_path / "other.txt.gz").write_bytes(gzip.compress(b"Without a coat.\nNever.\n"))
    found = find([text, tmp_path / "other.txt.gz"])
    shares = found.summary.filter((pl.col("split") == "all") & (pl.col("condition") == "model"))
    assert shares["value"].to_list() == [pytest.approx(4 / 6), 0.5]
    shown = found.sentences().filter(dataset=str(tmp_path / "other.txt.gz"))  # a cue of one detector alone fails
    assert shown.select("sentence", "condition", "failed").rows() == [
        ("Without a coat.", "words", True),
        ("Never.", "words", False),
        ("Never.", "model", False),
    ]
