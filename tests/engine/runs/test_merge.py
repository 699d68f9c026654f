from pathlib import Path

import polars as pl
import pytest
from negengine.engine.errors import InputError
from negengine.engine.runs.folder import RunFolder, Shard, finished_stage, read_run
from negengine.engine.runs.merge import gather

IDENTITY = {"model sha256": "ab" * 32, "seed": 0}
PARTS = 5
FINAL = {"select": "triplets.parquet", "score": "scores.parquet"}


def rows(number: int) -> pl.DataFrame:
    return pl.DataFrame({"part": [number] * (number + 2), "verb": [f"verb {i}" for i in range(number + 2)]})


def finish(run: RunFolder) -> None:
    final = {FINAL[run.stage]: run.read_parts(), f"{run.stage}.json": run.counts()}
    run.finish_stage({} if run.shard.count > 1 else final)


def work(folder: Path, stage="select", *, shard=None, identity=None, parts=PARTS, upto=PARTS, selection=None) -> Path:
    with RunFolder.create_or_resume(folder, stage, identity or IDENTITY, parts=parts, shard=shard) as run:
        if selection:
            run.carry_stage(selection, "select")
        for number in run.missing_parts:
            if number < upto:
                run.write_part(number, rows(number), {"tested": number})
        if not run.missing_parts:
            finish(run)
    return folder


def merge(shards, output) -> None:
    with gather(shards, output) as run:
        finish(run)


def files(folder: Path) -> dict[str, bytes]:
    found = {path for path in folder.rglob("*") if path.is_file()} - {folder / "run.json", folder / ".lock"}
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def halves(tmp_path) -> list[Path]:
    return [work(tmp_path / f"half {index}", shard=Shard(index, 2)) for index in (1, 2)]


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_merged_shards_have_the_bytes_of_the_whole_run(tmp_path, count):
    shards = [work(tmp_path / f"shard {index}", shard=Shard(index, count)) for index in range(1, count + 1)]
    merge(shards[::-1], tmp_path / "merged")
    assert files(tmp_path / "merged") == files(work(tmp_path / "whole"))


def test_a_merged_run_is_a_whole_run(tmp_path, halves):
    merge(halves, tmp_path / "merged")
    record = finished_stage(tmp_path / "merged", "select")
    whole = read_run(work(tmp_path / "whole"))["stages"]["select"]
    assert {**record, "sessions": []} == {**whole, "sessions": []}


def test_the_sessions_of_the_shards_are_kept(tmp_path, halves):
    merge(halves, tmp_path / "merged")
    sessions = finished_stage(tmp_path / "merged", "select")["sessions"]
    assert [session.get("shard") for session in sessions] == ["1/2", "2/2", None]


def test_the_shards_stay_as_they_are(tmp_path, halves):
    before = [everything(folder) for folder in halves]
    merge(halves, tmp_path / "merged")
    assert [everything(folder) for folder in halves] == before


def test_an_interrupted_merge_is_resumed(tmp_path, halves, monkeypatch):
    real = RunFolder.copy_part

    def copy_part(run, number, *arguments):
        if number == 3:
            raise KeyboardInterrupt
        real(run, number, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "copy_part", copy_part)
        with pytest.raises(KeyboardInterrupt):
            merge(halves, tmp_path / "merged")
    merge(halves, tmp_path / "merged")
    assert files(tmp_path / "merged") == files(work(tmp_path / "whole"))
    assert len(finished_stage(tmp_path / "merged", "select")["sessions"]) == 3


def test_merged_scores_come_with_their_selection(tmp_path):
    run = work(tmp_path / "run")
    shards = [
        work(tmp_path / f"score {index}", "score", shard=Shard(index, 2), selection=run, parts=4) for index in (1, 2)
    ]
    merge(shards, tmp_path / "merged")
    assert finished_stage(tmp_path / "merged", "select") == finished_stage(run, "select")
    work(run, "score", parts=4)
    final = ["triplets.parquet", "select.json", "scores.parquet", "score.json"]
    assert [files(tmp_path / "merged")[name] for name in final] == [files(run)[name] for name in final]


def test_scores_are_merged_into_the_run_that_selected(tmp_path):
    run = work(tmp_path / "run")
    selected = files(run)
    shards = [
        work(tmp_path / f"score {index}", "score", shard=Shard(index, 2), selection=run, parts=4) for index in (1, 2)
    ]
    merge(shards, run)
    assert list(read_run(run)["stages"]) == ["select", "score"]
    assert files(run)["triplets.parquet"] == selected["triplets.parquet"]
    assert finished_stage(run, "score")["shard"] is None


# ---------------------------------------------------------------- refused, with one line


def refused(shards, output, message) -> None:
    with pytest.raises(InputError, match=message) as caught:
        merge(shards, output)
    assert "\n" not in str(caught.value)
    assert not output.exists()


def test_a_missing_shard_is_named(tmp_path):
    shards = [work(tmp_path / f"shard {index}", shard=Shard(index, 4)) for index in (1, 3)]
    refused(shards, tmp_path / "merged", r"^shard 2/4, 4/4 is missing; merge needs all 4$")


def test_a_shard_given_twice_is_named(tmp_path, halves):
    again = work(tmp_path / "again", shard=Shard(1, 2))
    refused([*halves, again], tmp_path / "merged", r"^shard 1/2 is given twice: .*half 1 and .*again$")


def test_a_folder_given_twice_is_named(tmp_path, halves):
    refused([*halves, halves[0]], tmp_path / "merged", r"^shard 1/2 is given twice")


def test_another_division_is_refused(tmp_path, halves):
    third = work(tmp_path / "third", shard=Shard(2, 3))
    refused([halves[0], third], tmp_path / "merged", r"half 1 and .*third are of different runs: shards 2, there 3$")


def test_another_identity_is_refused_key_by_key(tmp_path, halves):
    other = work(tmp_path / "other", shard=Shard(2, 2), identity={**IDENTITY, "seed": 1})
    refused([halves[0], other], tmp_path / "merged", r"are of different runs: seed 0, there 1$")


def test_another_stage_is_refused(tmp_path, halves):
    other = work(tmp_path / "other", "score", shard=Shard(2, 2))
    refused([halves[0], other], tmp_path / "merged", r"are of different runs: stage select, there score$")


def test_an_unfinished_shard_is_named(tmp_path, halves):
    half = work(tmp_path / "unfinished", shard=Shard(1, 2), upto=3)
    message = r"unfinished: shard 1/2 is not finished \(1 of 3 parts are missing\); run it again to resume it$"
    refused([half, halves[1]], tmp_path / "merged", message)


def test_a_damaged_part_is_named_and_the_merge_resumes_when_it_is_whole_again(tmp_path, halves):
    part = halves[1] / "parts" / "select" / "part-00003.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"part-00003\.parquet: missing or damaged; finish shard 2/2"):
        merge(halves, tmp_path / "merged")
    part.write_bytes(content)
    merge(halves, tmp_path / "merged")
    assert files(tmp_path / "merged") == files(work(tmp_path / "whole"))


def test_a_whole_run_is_no_shard(tmp_path):
    refused([work(tmp_path / "run")], tmp_path / "merged", r"run: no shard; merge takes folders made with --shard I/N$")


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    refused([tmp_path / "nothing"], tmp_path / "merged", r"nothing: no run folder")


def test_no_shards_are_refused(tmp_path):
    refused([], tmp_path / "merged", "no shards given")


def test_another_run_is_not_merged_into(tmp_path, halves):
    other = work(tmp_path / "other", identity={**IDENTITY, "seed": 1})
    before = files(other)
    with pytest.raises(InputError, match="other: select was made with seed 1, now 0"):
        merge(halves, other)
    assert files(other) == before


def test_a_shard_is_not_merged_into_itself(tmp_path, halves):
    before = files(halves[0])
    with pytest.raises(InputError, match="shard 1/2, now none"):
        merge(halves, halves[0])
    assert files(halves[0]) == before


def test_a_selection_of_other_bytes_is_not_overwritten(tmp_path):
    run = work(tmp_path / "run")
    with RunFolder.create_or_resume(tmp_path / "target", "select", IDENTITY, parts=PARTS) as target:
        for number in target.missing_parts:
            target.write_part(number, rows(number).reverse(), {})
        finish(target)
    shard = work(tmp_path / "score", "score", shard=Shard(1, 2), selection=run, parts=1)
    second = work(tmp_path / "score 2", "score", shard=Shard(2, 2), selection=run, parts=1)
    before = files(tmp_path / "target")
    with pytest.raises(InputError, match="target: its select gave other files than that of"):
        merge([shard, second], tmp_path / "target")
    assert files(tmp_path / "target") == before
    assert list(read_run(tmp_path / "target")["stages"]) == ["select"]
