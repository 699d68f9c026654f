"""Runs of `cues` with the list of words and with a detector, and the words of a detector as tokens."""

import gzip
import json

import negengine as ng
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.experiment_command import experiment_command
from negengine.engine.experiments.cues.cue_detector import NO_TOKEN, WordEncoder
from negengine.engine.experiments.cues.cues import Cues
from negengine.engine.views.table import cells
from negengine.export.build import build
from tiny_checkpoints import write_detector
from tokenizers import Tokenizer

TEXT = """\
I don't know. It rained. Nobody came, not she.
Neither she nor you was unhappy.

It rained.
You was careless, unsure.
"""
WORDS = ["Anna", "does", "n't", "like", "to", "smoke", ",", "she", "is", "happy", "."]


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return tmp_path / "text.txt"


@pytest.fixture
def find(detector, tmp_path):
    model = ng.load(detector.folder, task="token-classification", device="cpu")

    return lambda texts: ng.cues(model, texts, output=tmp_path / "run", progress=False)


def test_shares_cues_and_sentences_of_both_detectors(find, text, detector):
    """Six sentences. The model: 4 with a cue; the list finds `unsure` as well."""
    run = find(text)
    assert cells(run.tables()[0]) == [
        [str(text), "list of words", "6", "66.67", "33.33", "16.67", "33.33"],
        [str(text), detector.name, "6", "66.67", "33.33", "16.67", "33.33"],
    ]
    rows = run.items.filter(pl.col("condition") == "model").select("item", "sentence", "cues", "kinds").rows()
    assert rows == [
        ("1.1", "I don't know.", ["n't"], ["particle"]),
        ("1.3", "Nobody came, not she.", ["nobody", "not"], ["particle", "particle"]),
        ("2.1", "Neither she nor you was unhappy.", ["neither nor", "un-"], ["phrase", "affix"]),
        ("5.1", "You was careless, unsure.", ["-less"], ["affix"]),
    ]
    found = [(cue, n) for name, cue, n in run.tables()[1].frame.rows() if name == detector.name]
    assert found == [(cue, 1) for cue in ("-less", "n't", "neither nor", "nobody", "not", "un-")]
    assert ("list of words", "unsure", 1) in run.tables()[1].frame.rows()
    assert run.sentences()["failed"].to_list() == [False] * 8  # both find a cue in the same four sentences here
    assert "RTE 7.16 %" in run.remarks()[0]


def test_a_packed_text_stands_beside_a_plain_one_and_a_model_with_other_labels_is_refused(find, once, text, tmp_path):
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
    labels = ("O", "B-PER", "I-PER")
    made = once("other-labels", lambda folder: build(str(write_detector(folder / "names", labels)), folder / "out"))
    model = ng.load(made / "out", task="token-classification", device="cpu")
    with pytest.raises(InputError, match="its labels are O, B-PER, I-PER; a cue detector has O, SINGLE, MULTI-B"):
        ng.cues(model, text, output=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_the_list_of_words_needs_no_run_folder(tmp_path):
    """Five sentences: two have particles (one of them twice), one an affix, two nothing: 3 of 5."""
    app, path = experiment_command(Cues, {}), tmp_path / "text.txt"
    path.write_text("I do not know, no. It is raining.\n\nNobody came.\nI am unhappy\nYou swim\n")
    shown = CliRunner().invoke(app, [str(path), "--format", "csv"]).stdout
    assert shown.splitlines()[1:] == [f"{path},5,3,0.6,0.4,0.0,0.2"]
    (found,) = json.loads(CliRunner().invoke(app, [str(path), "--json"]).stdout)
    assert (found["share"], found["by_kind"]) == (0.6, {"particle": 2, "phrase": 0, "affix": 1})
    assert found["cues"] == {"no": 1, "nobody": 1, "not": 1, "unhappy": 1}
    error = CliRunner().invoke(app, [str(path), "--output", "run"]).exception
    assert str(error) == "--output run: this option needs a model; add --detector"


def encoder(tokenizer, longest=512):
    return WordEncoder(Tokenizer.from_str(tokenizer.backend.to_str()), longest)


def test_the_first_token_of_a_word_begins_it_and_special_tokens_in_a_text_are_ordinary_text(small_tokenizer):
    """The tokens from one word's first token to the next one's are the tokens of that word."""
    ((window,),) = encoder(small_tokenizer).encode([WORDS])
    bounds = [*window.first.tolist(), len(window.ids) - 1]
    for word, start, stop in zip(WORDS, bounds, bounds[1:], strict=False):
        text = small_tokenizer.backend.decode(window.ids[start:stop].tolist())
        assert text.replace(" ", "").lower() == word.lower()
    # A text that writes [PAD] must not hold the token, which the model would ignore.
    known = small_tokenizer.backend.get_added_tokens_decoder()
    ((window,),) = encoder(small_tokenizer).encode([[*(token.content for token in known.values()), "is"]])
    assert not set(window.ids[1:-1].tolist()) & (set(known) - {small_tokenizer.unknown_id})


@example(words=WORDS * 6)
@example(words=["a" * 50, "zzyzx" * 10_000])
@given(words=st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=6), max_size=6))
def test_any_words_have_one_position_each_in_windows_that_the_model_takes(words, small_tokenizers):
    (windows,) = encoder(small_tokenizers["WordPiece cased"], 16).encode([words])
    assert sum(len(window.first) for window in windows) == len(words)
    for window in windows:
        assert len(window.ids) <= 16
        places = window.first[window.first != NO_TOKEN]
        assert (np.diff(places) > 0).all()
        assert ((places > 0) & (places < len(window.ids) - 1)).all()
