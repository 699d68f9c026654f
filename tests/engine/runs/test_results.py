"""A final file is read only as its stage wrote it, and the hints are commands that the user can run."""

from pathlib import Path

import polars as pl
import pytest
from negengine.engine.basics.atomic import sha256
from negengine.engine.basics.errors import InputError
from negengine.engine.runs import results
from negengine.engine.runs.record import RunRecord, Session, StageRecord, read_run
from negengine.engine.runs.results import finished_stage, read_document, unlike
from small_stages import work


def test_a_result_that_is_missing_or_was_changed_is_refused(tmp_path):
    run = work(tmp_path)
    record, table = read_run(run).stages["select"], pl.read_parquet(run / "triplets.parquet")
    assert results.read_frame(run, record, "triplets.parquet").equals(table)
    for content in (table, table.lazy(), {"verb": "lächeln"}):
        digest = results.write_result(run / "another.json", content)
        assert digest == results.result_sha256(content) == sha256((run / "another.json").read_bytes())
    assert (run / "another.json").read_text("utf-8") == '{\n  "verb": "lächeln"\n}\n'
    for name, change in (
        ("selection.json", lambda path: path.write_bytes(path.read_bytes() + b" ")),
        ("selection.json", lambda path: path.unlink()),
        ("another.json", lambda path: None),  # the stage did not write it
    ):
        change(run / name)
        with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it; run the same"):
            results.read_result(run, record, name)


def test_a_document_of_something_else_is_one_line(tmp_path):
    record = read_run(run := work(tmp_path)).stages["select"]
    assert read_document(run, record, "selection.json")["rows"] == 9
    for content in (b"{", b"[1]", b"\xff", b"[" * 100_000):  # with the right digest, as in a run from elsewhere
        (run / "selection.json").write_bytes(content)
        record.files["selection.json"] = sha256(content)
        with pytest.raises(InputError, match=r"selection\.json: not as negengine writes it"):
            read_document(run, record, "selection.json")


HINTS = [
    ([Session(again="negengine a x"), Session(again="negengine b 'x;'")], "negengine b 'x;' --output 'a b'"),
    (
        [Session(again="negengine score 3", run="3"), Session(again="negengine score r --seed 3", run="r")],
        "negengine score 'a b' --seed 3 --output 'a b'",
    ),
    *[([Session(command=own, again=own)], None) for own in ("rm -r /", "srun b", "", "negengine 'open", None)],
    ([Session(command="rm -r /")], None),
]


@pytest.mark.parametrize("shard", [None, "2/3"])
def test_the_hint_is_for_the_folder_at_hand_and_no_recorded_command_is_printed_unchecked(shard):
    for sessions, hint in HINTS:
        told = f"to resume it: {hint}" if hint else "run the same command again to resume it"
        record, own = StageRecord({}, 1, shard=shard, sessions=sessions), f" --shard {shard}" if shard and hint else ""
        assert results.resume_hint(Path("a b"), record) == told.replace(" --output", f"{own} --output")


def test_the_checks_of_a_finished_stage_are_told_one_by_one(tmp_path):
    RunRecord("0", {}).write(tmp_path)
    with pytest.raises(InputError, match="stopped before its first part; run its command again"):
        results.begun_stages(tmp_path)
    with pytest.raises(InputError, match=r"score has not been run here; the folder holds select$"):
        finished_stage(run := work(tmp_path / "run"), "score")
    files = finished_stage(run, "select").files
    (run / "selection.json").write_text("{}")
    assert unlike(run, {**files, "none": "0" * 64}) == ["selection.json", "none"]
