"""What share of a file's sentences holds a cue of the word list."""

import json

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_views import CueShares, cue_share
from negengine.engine.views.cells import cells


def test_shares_of_a_file(tmp_path):
    """Five sentences: two have particles (one of them twice), one an affix, two nothing: 3 of 5."""
    path = tmp_path / "text.txt"
    path.write_text("I do not know, no. It is raining.\n\nNobody came.\nHe is unable to swim\nWe swim\n", "utf-8")
    share = cue_share(path)
    assert list(share.pop("cues").items()) == [("no", 1), ("nobody", 1), ("not", 1), ("unable", 1)]
    kinds = {"particle": 2, "phrase": 0, "affix": 1}
    assert share == {"file": str(path), "share": 0.6, "sentences": 5, "negated": 3, "by_kind": kinds}


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_a_sentence_is_refused(content, tmp_path):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"text\.txt:1: no sentence"):
        cue_share(tmp_path / "text.txt")


def test_shares_as_table_and_document(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("I do not know.\nHe is unable to swim\nWe swim\nYes\n", "utf-8")
    shares = CueShares([cue_share(path)])
    assert cells(shares.tables()[0]) == [[str(path), "4", "2", "50.00", "25.00", "0.00", "25.00"]]
    assert json.loads(json.dumps(shares.document())) == shares.shares
