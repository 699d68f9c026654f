"""Merged shards are what the whole run would have been; each wrong shard is one line, and nothing is written then.

Shards that decided in different ways are put together, and the differences are told and recorded.
"""

from pathlib import Path

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs import merge as merging
from negengine.engine.runs.folder import RunFolder
from negengine.engine.runs.merge import joined, told_batches, told_differences
from negengine.engine.runs.part import EncodedPart, PartFiles
from negengine.engine.runs.record import read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.session import Session
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import Choices, FinishedParts, PartResult
from sealed_documents import reseal
from small_stages import results, rows

IDENTITY = {"model sha256": "ab" * 32, "seed": 0}
PARTS = 5


def publish_triplets(parts: FinishedParts):
    return {"triplets.parquet": parts.rows, "select.json": dict(parts.counts)}


def publish_scores(parts: FinishedParts):
    assert (parts.folder / "triplets.parquet").exists()
    return {"scores.parquet": parts.rows, "score.json": dict(parts.counts)}


PUBLISHERS = {"select": publish_triplets, "score": publish_scores}


def work(folder: Path, stage="select", *, shard=None, identity=None, parts=PARTS, upto=PARTS, selection=None) -> Path:
    with RunFolder.create_or_resume(folder, stage, identity or IDENTITY, parts=parts, shard=shard) as run:
        if selection:
            run.carry_stage(selection, "select")
        for number in run.missing_parts:
            if number < upto:
                run.write_part(number, EncodedPart.of(PartResult(rows(number), {"tested": number})))
        if not run.missing_parts:
            run.finish(PUBLISHERS[stage])
    return folder


def merge(shards, output) -> str:
    return merging.merge(shards, output, PUBLISHERS)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def halves(tmp_path) -> list[Path]:
    return [work(tmp_path / f"half {index}", shard=Shard(index, 2)) for index in (1, 2)]


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_merged_shards_have_the_bytes_of_the_whole_run(tmp_path, count):
    shards = [work(tmp_path / f"shard {index}", shard=Shard(index, count)) for index in range(1, count + 1)]
    assert merge(shards[::-1], tmp_path / "merged") == "select"
    assert results(tmp_path / "merged") == results(work(tmp_path / "whole"))


def test_a_merged_run_is_a_whole_run(tmp_path, halves):
    merge(halves, tmp_path / "merged")
    record = finished_stage(tmp_path / "merged", "select")
    whole = finished_stage(work(tmp_path / "whole"), "select")
    assert (record.identity, record.files, record.counts) == (whole.identity, whole.files, whole.counts)
    assert record.shard is None


def test_the_sessions_of_the_shards_are_kept(tmp_path, halves):
    merge(halves, tmp_path / "merged")
    sessions = finished_stage(tmp_path / "merged", "select").sessions
    assert [session.shard for session in sessions] == ["1/2", "2/2", None]
    assert sessions[-1].merged == [str(folder) for folder in halves]


def test_shards_that_have_chosen_nothing_are_merged_without_a_choice(tmp_path, halves):
    merge(halves, tmp_path / "merged")
    record = finished_stage(tmp_path / "merged", "select")
    assert (record.calibration, record.batch_tokens) == (None, None)


def test_the_metadata_are_those_of_the_first_shard(tmp_path):
    shards = []
    for index in (1, 2, 3):
        folder, note = tmp_path / str(index), {"model folder": f"models/{index}"}
        with RunFolder.create_or_resume(
            folder, "select", IDENTITY, parts=3, shard=Shard(index, 3), metadata=note
        ) as run:
            run.write_part(index - 1, EncodedPart.of(PartResult(rows(index), {})))
            run.finish(publish_triplets)
        shards.append(folder)
    merge(shards, tmp_path / "merged")
    assert finished_stage(tmp_path / "merged", "select").metadata == {"model folder": "models/1"}


def test_the_shards_stay_as_they_are(tmp_path, halves):
    before = [everything(folder) for folder in halves]
    merge(halves, tmp_path / "merged")
    assert [everything(folder) for folder in halves] == before


def test_a_finished_merge_is_shown_again_without_parts(tmp_path, halves):
    merge(halves, tmp_path / "merged")
    for path in (tmp_path / "merged" / "parts" / "select").iterdir():
        path.unlink()
    before = results(tmp_path / "merged")
    merge(halves, tmp_path / "merged")
    assert results(tmp_path / "merged") == before


def test_an_interrupted_merge_is_resumed(tmp_path, halves, monkeypatch):
    real = RunFolder.write_part

    def write_part(run, number, part):
        if number == 3:
            raise KeyboardInterrupt
        real(run, number, part)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_part", write_part)
        with pytest.raises(KeyboardInterrupt):
            merge(halves, tmp_path / "merged")
    merge(halves, tmp_path / "merged")
    assert results(tmp_path / "merged") == results(work(tmp_path / "whole"))
    assert len(finished_stage(tmp_path / "merged", "select").sessions) == 3


@pytest.fixture
def scored(tmp_path) -> tuple[Path, list[Path]]:
    """A selection, and two shards of its scores."""
    run = work(tmp_path / "run")
    return run, [
        work(tmp_path / f"score {index}", "score", shard=Shard(index, 2), selection=run, parts=4) for index in (1, 2)
    ]


def test_merged_scores_come_with_their_selection(tmp_path, scored):
    run, shards = scored
    merge(shards, tmp_path / "merged")
    assert finished_stage(tmp_path / "merged", "select") == finished_stage(run, "select")
    work(run, "score", parts=4)
    final = ["triplets.parquet", "select.json", "scores.parquet", "score.json"]
    assert [results(tmp_path / "merged")[name] for name in final] == [results(run)[name] for name in final]


def test_scores_are_merged_into_the_run_that_selected(scored):
    run, shards = scored
    selected = results(run)
    assert merge(shards, run) == "score"
    assert list(read_run(run).stages) == ["select", "score"]
    assert results(run)["triplets.parquet"] == selected["triplets.parquet"]
    assert finished_stage(run, "score").shard is None


# ---------------------------------------------------------------- refused, with one line


def refused(shards, output, message) -> None:
    with pytest.raises(InputError, match=message) as caught:
        merge(shards, output)
    assert "\n" not in str(caught.value)
    assert not output.exists()


def test_a_missing_shard_is_named(tmp_path):
    shards = [work(tmp_path / f"shard {index}", shard=Shard(index, 4)) for index in (1, 3)]
    refused(shards, tmp_path / "merged", r"^shard 2/4, 4/4 is missing; merge needs all 4$")


@pytest.mark.parametrize("count", [2, 3])
def test_the_last_shard_is_missed_too(tmp_path, count):
    shards = [work(tmp_path / f"shard {index}", shard=Shard(index, count)) for index in range(1, count)]
    refused(shards, tmp_path / "merged", rf"^shard {count}/{count} is missing; merge needs all {count}$")


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


def test_another_stage_is_refused(tmp_path, scored):
    shard = work(tmp_path / "other", shard=Shard(1, 2))
    refused([shard, scored[1][1]], tmp_path / "merged", r"are of different runs: stage select, there score")


def test_an_unfinished_shard_is_named(tmp_path, halves):
    half = work(tmp_path / "unfinished", shard=Shard(1, 2), upto=3)
    message = (
        r"unfinished: shard 1/2 is not finished \(1 of 3 parts are missing\); run the same command again to resume it$"
    )
    refused([half, halves[1]], tmp_path / "merged", message)


def test_a_shard_that_tells_of_a_thousand_million_parts_is_refused_at_once(tmp_path, halves):
    for half in halves:
        reseal(half / "run.json", lambda document: document["stages"]["select"].update(parts=2 * 10**9))
    refused(halves, tmp_path / "merged", r"\(999999997 of 1000000000 parts are missing\)")


def test_a_damaged_part_is_named_and_the_merge_resumes_when_it_is_whole_again(tmp_path, halves):
    part = PartFiles.of(halves[1], "select", 3).rows
    part.write_bytes(part.read_bytes()[:-1])
    message = r"part-00003\.parquet: missing or damaged; shard 2/2: run the same command again to resume it$"
    with pytest.raises(InputError, match=message):
        merge(halves, tmp_path / "merged")
    work(halves[1], shard=Shard(2, 2))  # as the line says
    merge(halves, tmp_path / "merged")
    assert results(tmp_path / "merged") == results(work(tmp_path / "whole"))


def test_a_whole_run_is_not_a_shard(tmp_path):
    message = r"run is not a shard; merge takes folders that were made with --shard I/N$"
    refused([work(tmp_path / "run")], tmp_path / "merged", message)


def test_a_stage_of_an_unknown_probe_is_not_a_shard(tmp_path):
    with RunFolder.create_or_resume(tmp_path / "a", "theirs", IDENTITY, parts=0, shard=Shard(1, 2)) as run:
        run.finish(publish_triplets)
    refused([tmp_path / "a"], tmp_path / "merged", "a is not a shard")


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    refused([tmp_path / "nothing"], tmp_path / "merged", r"nothing is not a run folder")


def test_no_shards_are_refused(tmp_path):
    refused([], tmp_path / "merged", "no shards given")


def test_another_run_is_not_merged_into(tmp_path, halves):
    other = work(tmp_path / "other", identity={**IDENTITY, "seed": 1})
    before = results(other)
    with pytest.raises(InputError, match="other: select was made with seed 1, now 0"):
        merge(halves, other)
    assert results(other) == before


def test_a_shard_is_not_merged_into_itself(tmp_path, halves):
    before = results(halves[0])
    with pytest.raises(InputError, match="shard 1/2, now none"):
        merge(halves, halves[0])
    assert results(halves[0]) == before


def test_a_selection_of_other_bytes_is_not_overwritten(tmp_path, scored):
    target = tmp_path / "target"
    with RunFolder.create_or_resume(target, "select", IDENTITY, parts=PARTS) as run:
        for number in run.missing_parts:
            run.write_part(number, EncodedPart.of(PartResult(rows(number).reverse())))
        run.finish(publish_triplets)
    before = results(target)
    with pytest.raises(InputError, match="target: its select has other results than"):
        merge(scored[1], target)
    assert results(target) == before
    assert list(read_run(target).stages) == ["select"]


# ---------------------------------------------------------------- margins


def audited(folder: Path, index: int, needed: float, **session) -> Path:
    made = Session(**session)
    with RunFolder.create_or_resume(folder, "select", IDENTITY, parts=4, shard=Shard(index, 2), session=made) as run:
        run.set_choices(Choices({"Cp": {"precision": "mixed", "bound": 0.5}}))
        for number in run.missing_parts:
            run.write_part(
                number, EncodedPart.of(PartResult(rows(number), {}, {"Cp": max(needed, 0.5)}, {"Cp": needed}))
            )
        run.finish(publish_triplets)
    return folder


def test_shards_whose_audits_agree_are_merged_with_their_calibration(tmp_path):
    merge([audited(tmp_path / str(i), i, 0.0) for i in (1, 2)], tmp_path / "merged")
    record = finished_stage(tmp_path / "merged", "select")
    assert record.calibration == {"Cp": {"precision": "mixed", "bound": 0.5}}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (None, "run the command of a shard without --shard and with --output {}"),
        ("unbalanced 'quote", "run the command of a shard without --shard and with --output {}"),
        ("negengine select 'my model' --shard 2/2 -o x", "negengine select 'my model' --output {}"),
        ("negengine select m --shard=2/2 --output=x -v", "negengine select m -v --output {}"),
    ],
)
def test_a_wider_margin_in_another_shard_is_refused_with_the_command_that_goes_on(tmp_path, command, told):
    first, second = audited(tmp_path / "1", 1, 0.9), audited(tmp_path / "2", 2, 0.0, command=command)
    with pytest.raises(InputError) as caught:
        merge([first, second], tmp_path / "merged")
    message = str(caught.value)
    assert "so 2 parts of shard 2/2 must be decided again with a wider margin" in message
    assert message.endswith("to do it: " + told.format(tmp_path / "merged"))


def test_shards_of_different_precisions_are_merged_and_told(tmp_path):
    """As `auto` may choose on different kinds of processors."""
    choices = {1: {"precision": "fp32"}, 2: {"precision": "mixed", "low_precision": "int8", "bound": 0.5}}
    shards = []
    for index, choice in choices.items():
        folder, shard = tmp_path / str(index), Shard(index, 2)
        with RunFolder.create_or_resume(folder, "select", IDENTITY, parts=PARTS, shard=shard) as run:
            run.set_choices(Choices({"Cp": choice}))
            for number in run.missing_parts:
                bounds = {"Cp": choice["bound"]} if "bound" in choice else {}
                run.write_part(number, EncodedPart.of(PartResult(rows(number), {"tested": number}, bounds)))
            run.finish(publish_triplets)
        shards.append(folder)
    said = []
    merging.merge(shards[::-1], tmp_path / "merged", PUBLISHERS, said.append)
    assert results(tmp_path / "merged").keys() >= {"triplets.parquet"}
    assert [line.split(":")[0] for line in said] == ["Cp"]
    recorded = read_run(tmp_path / "merged").stages["select"].calibration
    assert recorded == {"Cp": {**choices[2], "shards": {"1/2": choices[1], "2/2": choices[2]}}}


FP32 = {"precision": "fp32", "reason": "mixed precision would be 0.98 times as fast", "speed_ratio": 1.1}
INT8 = {"precision": "mixed", "low_precision": "int8", "bound": 0.5, "speed_ratio": 2.0}


def test_equal_choices_are_the_whole_runs():
    shards = {"1/2": {"Cp": INT8, "Cn": FP32}, "2/2": {"Cp": INT8, "Cn": FP32}}
    assert joined(shards) == {"Cp": INT8, "Cn": FP32}
    assert told_differences(shards) == []


def test_the_choice_that_can_decide_again_is_taken_and_all_are_recorded():
    shards = {"1/3": {"Cp": FP32}, "2/3": {"Cp": INT8}, "3/3": {"Cp": {**INT8, "bound": 0.6}}}
    own = {shard: choices["Cp"] for shard, choices in shards.items()}
    assert joined(shards) == {"Cp": {**INT8, "shards": own}}


@pytest.mark.parametrize("other", [FP32, {**INT8, "low_precision": "fp16"}])
def test_different_precisions_are_told(other):
    word = "mixed (fp16)" if other is not FP32 else "fp32"
    (line,) = told_differences({"1/2": {"Cp": INT8}, "2/2": {"Cp": other}})
    assert line.startswith(f"Cp: the shards were decided in different precisions: 1/2 in mixed (int8); 2/2 in {word}.")
    assert "The decisions are exact in each." in line


def test_another_calibration_is_told():
    (line,) = told_differences({"1/2": {"Cp": INT8}, "2/2": {"Cp": {**INT8, "bound": 0.51}}})
    assert line.startswith("Cp: the shards were calibrated on different kinds of processors.")


def test_another_low_precision_model_is_told():
    (line,) = told_differences({str(i): {"Cp": {**INT8, "low_precision_sha256": str(i)}} for i in (1, 2)})
    assert line.startswith(
        "Cp: the shards were calibrated with different low-precision models. The decisions are exact;"
    )


def test_another_speed_decides_nothing():
    assert told_differences({"1/2": {"Cp": INT8}, "2/2": {"Cp": {**INT8, "speed_ratio": 2.1, "speedup": 1.9}}}) == []


def test_a_shard_without_a_pattern_does_not_count():
    assert joined({"1/2": {}, "2/2": {"Cp": INT8}}) == {"Cp": INT8}
    assert told_differences({"1/2": {}, "2/2": {"Cp": INT8}}) == []


def test_equal_batches_are_not_told():
    assert told_batches({}) == []
    assert told_batches({"1/2": None, "2/2": None}) == told_batches({"1/2": 64, "2/2": 64}) == []


def test_different_batches_are_told_in_the_order_of_the_shards():
    (line,) = told_batches({"1/4": 256, "2/4": None, "3/4": 512, "4/4": 256})
    parts = "1/4, 4/4 with 256 tokens; 2/4 with the usual ones; 3/4 with 512 tokens"
    assert line == f"the shards ran in different batches: {parts}. The last digits of log-probabilities can differ"


def test_the_members_of_each_precision_are_told():
    shards = {"1/3": {"Cp": INT8}, "2/3": {"Cp": FP32}, "3/3": {"Cp": INT8}}
    (line,) = told_differences(shards)
    assert "different precisions: 1/3, 3/3 in mixed (int8); 2/3 in fp32. " in line
    assert joined(shards)["Cp"]["precision"] == "mixed"


def test_where_no_shard_has_mixed_precision_the_first_choice_is_taken():
    shards = {"1/2": {"Cp": FP32}, "2/2": {"Cp": {**FP32, "reason": "another"}}}
    own = {shard: choices["Cp"] for shard, choices in shards.items()}
    assert joined(shards) == {"Cp": {**FP32, "shards": own}}
    assert told_differences(shards) == []
