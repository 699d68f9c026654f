"""run.json is checked when it is read: each wrong one is one line, and nothing leads out of the folder."""

import hashlib
import re

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.sealed import seal
from negengine.engine.runs.record import FORMAT, RUN_FILE, Recorded, differences, mask_token, read_record, read_run
from small_stages import work

STAGE = {"identity": {"seed": 0}, "parts": 3}


def document(name="select", **stage) -> bytes:
    """With its digest, as somebody else could make one."""
    return seal({"format": FORMAT, "negengine": "1", "stages": {name: {**STAGE, **stage}}})


DEEP = b'{"format": 4, "negengine": "1", "stages": {"a": {"parts": 1, "identity": {"x": ' + b"[" * 100_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"format": ' + b"1" * 10_000 + b"}",
        DEEP + b',\n  "content_sha256": "%b"\n}\n' % hashlib.sha256(DEEP).hexdigest().encode(),
        document(parts=-1),
        document(shard="x" * 5_000),
        document("../a"),
    ],
)
def test_a_run_json_of_something_else_is_one_line_and_nothing_changes(tmp_path, content):
    (tmp_path / RUN_FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json: not as negengine writes it") as caught:
        work(tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [RUN_FILE]
    assert (tmp_path / RUN_FILE).read_bytes() == content


OTHER_PURPOSE = [".lock", "Run.JSON", "PARTS", "sessions", "score.done.json", "." + "x" * 60]


@pytest.mark.parametrize("name", ["../x", *OTHER_PURPOSE])  # basics/test_paths has all names that lead elsewhere
def test_a_final_file_is_a_plain_name_in_the_folder(tmp_path, name):
    (tmp_path / RUN_FILE).write_bytes(document())
    files = dict.fromkeys(["triplets.parquet", name, "parts"], "0" * 64)
    (tmp_path / "select.done.json").write_bytes(seal({"files": files, "format": FORMAT}))
    with pytest.raises(InputError, match=rf"\({re.escape(repr(name[:40]))} is not the name of a final file"):
        read_run(tmp_path)


CUT = f"word {'w' * 60}, now {'w' * 60}…; digest abababababab…, now abababababab…; short {'ab' * 19}a, now {'0' * 12}"
LONG = {"word": "w" * 61, "digest": "ab" * 21, "short": "0" * 12}


def test_differences_are_told_key_by_key_and_a_value_is_cut_only_where_it_is_too_long():
    for old, new, told in (
        ({"seed": 0, "gone": 1}, {"seed": 1, "new": [1]}, "seed 0, now 1; gone 1, now none; new none, now [1]"),
        (LONG, LONG, ""),
        ({"a": ["ü", None]}, {"a": True}, 'a ["ü", null], now true'),
        ({"word": "w" * 60, "digest": "ab" * 20, "short": "ab" * 19 + "a"}, LONG, CUT),
    ):
        assert differences(old, new) == told
        assert differences(old, new, "there") == told.replace("now", "there")


def test_a_folder_in_which_a_run_was_only_about_to_begin_is_not_foreign(tmp_path):
    for name in (".lock", ".run.json.0f1e.negengine-tmp"):
        (tmp_path / name).touch()
        assert read_record(tmp_path) is None
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match=r"holds 'mine\.txt' but no run\.json"):
        read_record(tmp_path)


def test_what_a_run_from_elsewhere_lacks_is_bad_input(tmp_path):
    record = Recorded({"seed": 0})
    assert (record["seed"], record.get("pairs")) == (0, None)
    with pytest.raises(InputError, match=r"run\.json does not say 'pairs' of a stage"):
        record["pairs"]
    assert mask_token({"mask token": "[MASK]"}, tmp_path) == "[MASK]"
    with pytest.raises(InputError, match=r"run\.json does not name the mask token"):
        mask_token({"mask token": 5}, tmp_path)
