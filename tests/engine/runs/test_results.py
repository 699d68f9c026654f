"""A final file is read only as its stage wrote it, and the hints are commands that the user can run."""

from pathlib import Path

import polars as pl
import pytest
from negengine.engine.basics.atomic import sha256
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.part import PartFiles
from negengine.engine.runs.record import RunRecord, StageRecord, read_run
from negengine.engine.runs.results import (
    begun_stages,
    finished_stage,
    put_together,
    read_document,
    read_frame,
    read_result,
    result_sha256,
    resume_hint,
    shard_command,
    unlike,
    write_result,
)
from negengine.engine.runs.session import Session
from negengine.engine.runs.shard import Shard
from small_stages import work


@pytest.fixture
def run(tmp_path):
    return work(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("selection.json", lambda path: path.unlink()),
        ("selection.json", lambda path: path.write_bytes(path.read_bytes() + b" ")),
        ("another.json", lambda path: path.write_text("{}")),  # the stage did not write it
    ],
)
def test_a_result_that_is_missing_or_was_changed_is_refused(run, name, change):
    record = read_run(run).stages["select"]
    assert read_frame(run, record, "triplets.parquet").equals(pl.read_parquet(run / "triplets.parquet"))
    change(run / name)
    with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it; run the same"):
        read_result(run, record, name)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_document_of_something_else_is_one_line(run, content):
    """Its digest is right: a run from elsewhere can hold anything."""
    record = read_run(run).stages["select"]
    assert read_document(run, record, "selection.json")["rows"] == 9
    (run / "selection.json").write_bytes(content)
    record.files["selection.json"] = sha256(content)
    with pytest.raises(InputError, match=r"selection\.json: not as negengine writes it"):
        read_document(run, record, "selection.json")


def test_a_run_without_a_stage_is_told(tmp_path):
    RunRecord("0", {}).write(tmp_path)
    with pytest.raises(InputError, match="stopped before its first part; run its command again"):
        begun_stages(tmp_path)


@pytest.mark.parametrize(
    ("sessions", "hint"),
    [
        ([Session(again="negengine a x"), Session(again="negengine b 'x;'")], "negengine b 'x;' --output 'a b'"),
        ([Session(again="negengine score r --seed 3", run="r")], "negengine score 'a b' --seed 3 --output 'a b'"),
        *[([Session(command=own, again=own)], None) for own in ("rm -r /", "srun negengine b", "python a.py", None)],
        ([Session(command="rm -r /")], None),
    ],
)
def test_the_hint_is_for_the_folder_at_hand_and_no_recorded_command_is_printed_unchecked(sessions, hint):
    told = f"to resume it: {hint}" if hint else "run the same command again to resume it"
    for shard in (None, "2/3"):
        record, own = StageRecord({}, 1, shard=shard, sessions=sessions), f" --shard {shard}" if shard and hint else ""
        assert resume_hint(Path("a b"), record) == told.replace(" --output", f"{own} --output")


@pytest.mark.parametrize(
    ("again", "told"),
    [
        ("negengine select mini --lazy", "negengine select mini --lazy"),
        ("negengine select mini; rm -r /", "negengine select 'mini;' rm -r /"),  # words alone
        *[(again, None) for again in (None, "rm -r /", "negengine 'not closed", "")],
    ],
)
def test_the_command_of_another_shard_is_one_of_negengine_alone(again, told):
    record = StageRecord({}, 1, sessions=[Session(again=again), Session()])
    assert shard_command(record, Path("a b"), Shard(3, 4)) == (told and f"{told} --shard 3/4 --output 'a b'")
    assert shard_command(record, Path("a b"), None) == (told and f"{told} --output 'a b'")


@pytest.mark.parametrize(
    "content", [pl.DataFrame({"x": [1, 2]}), pl.LazyFrame({"x": [1, 2]}), {"verb": "lächeln", "n": 3}]
)
def test_the_digest_of_a_result_is_that_of_its_file(tmp_path, content):
    digest = write_result(tmp_path / "x", content)
    written = (tmp_path / "x").read_bytes()
    assert digest == result_sha256(content) == sha256(written)
    assert not isinstance(content, dict) or written.decode() == '{\n  "verb": "lächeln",\n  "n": 3\n}\n'


def test_a_part_without_its_marker_is_told_before_anything_is_put_together(run):
    record = read_run(run).stages["select"]
    assert put_together(run, "select", record).counts == record.counts
    PartFiles.of(run, "select", 1).marker.unlink()
    with pytest.raises(InputError, match=r"part-00001\.parquet: missing or damaged; run the same command again"):
        put_together(run, "select", record)


def test_the_checks_of_a_finished_stage_are_told_one_by_one(run):
    with pytest.raises(InputError, match=r"score has not been run here; the folder holds select$"):
        finished_stage(run, "score")
    files = finished_stage(run, "select").files
    (run / "selection.json").write_text("{}")
    assert unlike(run, {**files, "none": "0" * 64}) == ["selection.json", "none"]
