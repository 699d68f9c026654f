"""Merged shards are what the whole run would have been; each wrong shard is one line, and nothing is written then."""

import shutil
from pathlib import Path

import pytest
import small_stages
from lies import reseal
from negengine.engine.basics.errors import InputError
from negengine.engine.runs import merge as merging
from negengine.engine.runs.folder import RunFolder
from negengine.engine.runs.merge import joined, told_differences
from negengine.engine.runs.part import EncodedPart, PartFiles
from negengine.engine.runs.record import read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import Choices, FinishedParts, PartResult
from small_stages import IDENTITY, everything, hold, publish, results, rows

PARTS = 5


def publish_scores(parts: FinishedParts):
    assert (parts.folder / "triplets.parquet").exists()
    return {"scores.parquet": parts.rows, "score.json": dict(parts.counts)}


PUBLISHERS = {"select": publish, "score": publish_scores}


def work(folder, stage="select", *, parts=PARTS, **options) -> Path:
    return small_stages.work(folder, stage, parts=parts, publish=PUBLISHERS.get(stage, publish), **options)


def merge(shards, output) -> None:
    merging.merge(shards, output, PUBLISHERS)


@pytest.fixture
def halves(tmp_path) -> list[Path]:
    return [work(tmp_path / f"half {index}", shard=Shard(index, 2)) for index in (1, 2)]


@pytest.mark.parametrize("count", [2, 5, 7])
def test_merged_shards_are_the_whole_run_with_the_sessions_of_the_shards_which_stay_as_they_are(tmp_path, count):
    indices, output = range(1, count + 1), tmp_path / "merged"
    shards = [work(tmp_path / f"{i}", shard=Shard(i, count), metadata={"model folder": f"models/{i}"}) for i in indices]
    before = [everything(folder) for folder in shards]
    merge(shards[::-1], output)
    assert [everything(folder) for folder in shards] == before
    assert results(output) == results(work(tmp_path / "whole"))
    record, whole = finished_stage(output, "select"), finished_stage(tmp_path / "whole", "select")
    own = record.identity, record.counts, record.files, record.shard, record.calibration, record.batch_tokens
    assert own == (whole.identity, whole.counts, whole.files, None, None, None)
    assert record.metadata == {"model folder": f"models/{count}"}  # of the first one that was given
    assert [session.shard for session in record.sessions] == [*(f"{i}/{count}" for i in indices[::-1]), None]
    assert record.sessions[-1].merged == [str(folder) for folder in shards[::-1]]


def test_an_interrupted_merge_is_resumed_and_a_finished_one_is_shown_again_without_parts(tmp_path, halves, monkeypatch):
    real, output = RunFolder.write_part, tmp_path / "merged"

    def write_part(run, number, part):
        if number == 3:
            raise KeyboardInterrupt
        real(run, number, part)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(RunFolder, "write_part", write_part)
        merge(halves, output)
    merge(halves, output)
    assert results(output) == results(work(tmp_path / "whole"))
    assert len(finished_stage(output, "select").sessions) == 3
    shutil.rmtree(output / "parts" / "select")
    before = results(output)
    merge(halves, output)
    assert results(output) == before


def test_merged_scores_come_with_their_selection_or_go_into_the_run_that_selected_and_no_other(tmp_path, halves):
    run = work(tmp_path / "run")
    shards = [work(tmp_path / f"{i}", "score", shard=Shard(i, 2), selection=run, parts=4) for i in (1, 2)]
    merge(shards, tmp_path / "merged")
    assert finished_stage(tmp_path / "merged", "select") == finished_stage(run, "select")
    merge(shards, run)
    assert (list(read_run(run).stages), finished_stage(run, "score").shard) == (["select", "score"], None)
    work(tmp_path / "whole", "score", parts=4, selection=run)
    for name in ("triplets.parquet", "selection.json", "scores.parquet", "score.json"):
        assert len({(folder / name).read_bytes() for folder in (run, tmp_path / "merged", tmp_path / "whole")}) == 1
    target = work(tmp_path / "target")
    with hold(target, parts=PARTS) as held:
        held.write_part(0, EncodedPart.of(PartResult(rows(0).reverse())))
    for own, output, message in (
        (shards, work(target), "target: its select has other results than"),
        (halves, work(tmp_path / "other", identity={**IDENTITY, "seed": 1}), "select was made with seed 1, now 0"),
        (halves, halves[0], "shard 1/2, now none"),
    ):
        before = results(output)
        with pytest.raises(InputError, match=message):
            merge(own, output)
        assert (results(output), list(read_run(output).stages)) == (before, ["select"])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "no shards given"),
        ([None], r"0 is not a run folder"),
        ([{}], r"0 is not a shard; merge takes folders that were made with --shard I/N$"),
        ([(2, 2)], r"^merge needs all 2 shards; missing: 1/2$"),
        ([(1, 4), (3, 4)], r"^merge needs all 4 shards; missing: 2/4, 4/4$"),
        ([(1, 2), (2, 2), (1, 2)], r"^shard 1/2 is given twice: .*0 and .*2$"),
        ([(1, 2), (2, 3)], r"0 and .*1 are of different runs: shards 2, there 3$"),
        ([(1, 2), {"shard": Shard(2, 2), "identity": {**IDENTITY, "seed": 1}}], "different runs: seed 0, there 1$"),
        ([(1, 2), {"shard": Shard(2, 2), "stage": "score"}], r"are of different runs: stage select, there score"),
        ([{"shard": Shard(1, 2), "upto": 3}, (2, 2)], r"0: shard 1/2 is not finished \(1 of 3 .* missing\); run the "),
        ([{"shard": Shard(1, 2), "stage": "theirs", "upto": 0}], "0 is not a shard"),
    ],
)
def test_what_is_not_a_whole_set_of_shards_is_refused(tmp_path, made, message):
    folders = [tmp_path / str(number) for number in range(len(made))]
    for folder, own in zip(folders, made, strict=True):
        if own is not None:
            selection = work(tmp_path / "run") if isinstance(own, dict) and own.get("stage") == "score" else None
            work(folder, selection=selection, **({"shard": Shard(*own)} if isinstance(own, tuple) else own))
    with pytest.raises(InputError, match=message):
        merge(folders, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_damaged_part_is_named_and_the_merge_resumes_when_it_is_whole_again(tmp_path, halves):
    part = PartFiles(halves[1], "select", 3).rows
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"part-00003\.parquet: missing or damaged; shard 2/2: run the same command"):
        merge(halves, tmp_path / "merged")
    work(halves[1], shard=Shard(2, 2))  # as the line says
    merge(halves, tmp_path / "merged")
    assert results(tmp_path / "merged") == results(work(tmp_path / "whole"))
    for half in halves:  # as a shard from elsewhere can say
        reseal(half / "run.json", lambda document: document["stages"]["select"].update(parts=2 * 10**9))
    with pytest.raises(InputError, match=r"\(999999997 of 1000000000 parts are missing\)"):  # at once
        merge(halves, tmp_path / "merged")


MIXED = {"precision": "mixed", "bound": 0.5}
FP32 = {"precision": "fp32", "reason": "mixed precision would be 0.98 times as fast", "speed_ratio": 1.1}


def audited(folder: Path, index: int, needed: float, choice=MIXED, batch=None) -> Path:
    with hold(folder, parts=4, shard=Shard(index, 2)) as run:
        run.set_choices(Choices({"Cp": choice}, batch))
        bounds = ({"Cp": max(needed, choice["bound"])}, {"Cp": needed}) if "bound" in choice else ()
        for number in run.missing_parts:
            run.write_part(number, EncodedPart.of(PartResult(rows(number), {}, *bounds)))
        run.finish(publish)
    return folder


def test_the_choices_of_the_shards_are_recorded_different_ones_are_told_and_a_wider_margin_is_refused(tmp_path):
    wider = audited(tmp_path / "wider", 1, 0.9), audited(tmp_path / "narrower", 2, 0.0)
    told = f"run the command of a shard without --shard and with --output {tmp_path / 'refused'}$"
    with pytest.raises(InputError, match=f"so 2 parts of shard 2/2 must be decided .* margin; to do it: {told}"):
        merge(wider, tmp_path / "refused")
    shards = [audited(tmp_path / "2", 2, 0.0, MIXED, 64), audited(tmp_path / "1", 1, 0.0, {"precision": "fp32"})]
    said = []
    merging.merge(shards, tmp_path / "merged", PUBLISHERS, said.append)
    batches = "2/2 with 64 tokens; 1/2 with the usual ones. The last digits of log-probabilities can differ"
    assert [said[0][:3], said[1:]] == ["Cp:", [f"the shards ran in different batches: {batches}"]]
    record = finished_stage(tmp_path / "merged", "select")
    own = {"1/2": {"precision": "fp32"}, "2/2": MIXED}
    assert (record.calibration, record.batch_tokens) == ({"Cp": {**MIXED, "shards": own}}, 64)


INT8 = {"precision": "mixed", "low_precision": "int8", "bound": 0.5, "speed_ratio": 2.0}
FP16, OTHER = {**INT8, "low_precision": "fp16"}, [{**INT8, "low_precision_sha256": sha} for sha in "ab"]
PRECISIONS, CALIBRATED = "decided in different precisions: ", "calibrated with different low-precision models. The deci"


@pytest.mark.parametrize(
    ("choices", "chosen", "told"),
    [
        ([FP32, {**FP32, "reason": "another"}], FP32, ""),
        ([INT8, {**INT8, "speed_ratio": 2.1, "speedup": 1.9}], INT8, ""),  # a speed decides nothing
        ([None, INT8], INT8, ""),  # a shard without the pattern
        ([FP32, INT8, {**INT8, "bound": 0.6}], INT8, f"{PRECISIONS}1/3 in fp32; 2/3, 3/3 in mixed (int8). "),
        ([INT8, FP16], INT8, f"{PRECISIONS}1/2 in mixed (int8); 2/2 in mixed (fp16). "),
        (
            [INT8, {**INT8, "bound": 0.51}],
            INT8,
            "calibrated on different kinds of processors. The decisions are exact",
        ),
        (OTHER, None, CALIBRATED),
    ],
)
def test_what_shards_chose_is_joined_and_what_differs_is_recorded_and_told(choices, chosen, told):
    names = [f"{number}/{len(choices)}" for number in range(1, len(choices) + 1)]
    shards = {name: {"Cp": own} if own else {} for name, own in zip(names, choices, strict=True)}
    given = {name: own["Cp"] for name, own in shards.items() if own}
    taken = chosen or choices[0]
    differ = any(own != taken for own in given.values())
    assert joined(shards) == {"Cp": {**taken, **({"shards": given} if differ else {})}}
    lines = told_differences(shards, {})
    assert len(lines) == bool(told)
    assert not told or lines[0].startswith(f"Cp: the shards were {told}")
