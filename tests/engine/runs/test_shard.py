"""Shards divide a run completely. With `--shard auto`, each task gets another one of them, or one clear line."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.shard import Shard, find_shard
from negengine.engine.runs.stage import part_ranges


def test_every_part_belongs_to_one_shard_and_ranges_of_parts_hold_every_number_once():
    for n in (0, 1, 2, 7, 60):
        for count in (1, 2, 3, 9):
            shards = [Shard(index, count) for index in range(1, count + 1)]
            assert sorted(part for shard in shards for part in shard.parts(n)) == list(range(n))
            ranges = part_ranges(n, count)
            assert [number for part in ranges for number in part] == list(range(n))
            assert {len(part) for part in ranges[:-1]} <= {count}
            assert all(0 < len(part) <= count for part in ranges)
    assert list(Shard(2, 3).parts(9)) == [1, 4, 7]


WRONG = ["/b", "-1/2", "0/2", "3/2", "0/0", "1/0", "1", "1/", "/2", "1/2/3", "+1/2", "1/1000000000", "١/٢"]


def test_a_shard_is_read_as_it_is_written_and_what_is_none_is_refused():
    for shard, suffix in ((Shard(), ""), (Shard(1, 2), "-1-of-2"), (Shard(2, 999_999_999), "-2-of-999999999")):
        assert find_shard(str(shard), {"PBS_ARRAY_INDEX": "3"}) == shard  # a shard that is named needs no batch system
        assert (shard.is_whole, shard.suffix) == (suffix == "", suffix)
    for text in (*WRONG, "", " 1/2", "1/2\n"):
        with pytest.raises(InputError, match="must be I/N with I from 1 to N, such as 1/4"):
            Shard.parse(text)


def slurm(indices, index, step=1, **more):
    names = {"ID": index, "COUNT": len(indices), "MIN": min(indices), "MAX": max(indices), "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items()} | more


def srun(number, count, **more):
    return {"SLURM_PROCID": str(number), "SLURM_NTASKS": str(count), "SLURM_STEP_ID": "0", **more}


def lsf(index, last, step=1):
    return {"LSB_JOBINDEX": str(index), "LSB_JOBINDEX_END": str(last), "LSB_JOBINDEX_STEP": str(step)}


def grid_engine(index, first, last, step):
    names = {"ID": index, "FIRST": first, "LAST": last, "STEPSIZE": step}
    return {f"SGE_TASK_{name}": str(value) for name, value in names.items()}


SCRIPT = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}  # a batch script has SLURM_PROCID=0, too


@pytest.mark.parametrize(("first", "count", "step"), [(0, 2, 1), (1, 16, 1), (500, 40, 9), (7, 3, 2)])
def test_a_slurm_array_with_any_first_index_and_any_step(first, count, step):
    indices = range(first, first + count * step, step)
    shards = [find_shard("auto", slurm(indices, index, step)) for index in indices]
    assert shards == [Shard(number, count) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("text", "environments", "shards"),
    [
        ("auto", [slurm([1, 5, 9], index, 4) for index in (1, 5, 9)], "1/3 2/3 3/3"),  # an evenly spaced list
        ("auto:0-15", [slurm([7], 7)], "8/16"),  # a task that is submitted again
        ("auto:0-30:2", [slurm([6], 6)], "4/16"),
        ("auto", [srun(number, 3) for number in range(3)], "1/3 2/3 3/3"),
        ("auto", [srun(1, 8, SLURM_STEP_NUM_TASKS="2")], "2/2"),  # a smaller step than the job
        ("auto", [{"SLURM_PROCID": str(n), "SLURM_NTASKS": "2"} for n in range(2)], "1/2 2/2"),
        ("auto", [slurm([0, 1], 1, **SCRIPT)], "2/2"),
        # srun inside of an array divides each task of the array
        ("auto", [slurm([4, 5], i, **srun(n, 3)) for i in (4, 5) for n in range(3)], "1/6 2/6 3/6 4/6 5/6 6/6"),
        ("auto:4-5", [slurm([5], 5, **srun(number, 3)) for number in range(3)], "4/6 5/6 6/6"),
        ("auto", [lsf(index, 3) for index in (1, 2, 3)], "1/3 2/3 3/3"),
        ("auto", [lsf(index, 9, 4) for index in (1, 5, 9)], "1/3 2/3 3/3"),
        ("auto:5-8", [lsf(6, 8)], "2/4"),
        ("auto", [grid_engine(index, 2, 10, 4) for index in (2, 6, 10)], "1/3 2/3 3/3"),
        ("auto", [srun(1, 2, **grid_engine(*["undefined"] * 4))], "2/2"),
        ("auto", [{"SKYPILOT_NODE_RANK": n, "SKYPILOT_NUM_NODES": "2"} for n in "01"], "1/2 2/2"),
        *[("auto:1-16", [{name: "3"}], "3/16") for name in ("PBS_ARRAY_INDEX", "PBS_ARRAYID", "JOB_COMPLETION_INDEX")],
        ("auto:0-15", [{"PBS_ARRAY_INDEX": "3"}], "4/16"),
        # two systems that agree, as where a site sets the variables of another one for old scripts
        ("auto:0-3", [slurm(range(4), 1, PBS_ARRAY_INDEX="1")], "2/4"),
    ],
)
def test_the_tasks_of_batch_systems(text, environments, shards):
    assert " ".join(str(find_shard(text, environment)) for environment in environments) == shards


NO_ARRAY = lsf(0, 0, 0), grid_engine(*["undefined"] * 4)  # as the systems say it of a job that is not an array
NO_NUMBERS = ("x", "-1", "1.5", "9" * 10, "٣", "1 2")
UNEVEN = r"3 indices of this Slurm array \(1 to 9\) are not evenly spaced.*auto:0-15"
NO_RANGE = "must be auto:FIRST-LAST, the indices of the whole array, such as auto:0-15"


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("auto", slurm([1, 2, 9], 2, 1), UNEVEN),
        ("auto", slurm([1, 2, 9], 2, 2), UNEVEN),
        ("auto", slurm([7], 7), "this Slurm array has one task, 7: if it belongs to a larger array, give the"),
        ("auto:0-30:2", slurm([7], 7), "is 7, which is not an index of the array 0 to 30, step 2;"),
        ("auto:1-16", slurm([0], 0), "SLURM_ARRAY_TASK_ID is 0, which is not an index of the array 1 to 16;"),
        ("auto:1-16", slurm([17], 17), "SLURM_ARRAY_TASK_ID is 17, which is not an index of the array 1 to 16;"),
        ("auto", {"SLURM_ARRAY_TASK_ID": "1"}, "TASK_COUNT, SLURM_ARRAY_TASK_MIN or SLURM_ARRAY_TASK_MAX is not set;"),
        ("auto", SCRIPT, "or put srun before the command, which starts it 8 times"),
        ("auto", srun(3, 3), r"SLURM_PROCID is 3, of 3 tasks: give --shard I/N"),
        ("auto", {**SCRIPT, "SLURM_PROCID": "1"}, r"SLURM_PROCID is 1, of 8 tasks, and SLURM_STEP_ID is not set"),
        ("auto", {"PBS_ARRAY_INDEX": "3"}, r"PBS does not say how many tasks .* \(PBS_ARRAY_INDEX is 3\): g"),
        ("auto", {"PBS_ARRAYID": "3"}, r"Torque does not say how many tasks the array has \(PBS_ARRAYID is 3\): give"),
        ("auto", {"JOB_COMPLETION_INDEX": "3"}, "Kubernetes does not say how many"),
        ("auto", lsf(1, 1), "this LSF array has one task, 1"),
        ("auto", lsf(4, 9, 4), "LSB_JOBINDEX is 4, which is not an index of the array 1 to 9, step 4"),
        ("auto", lsf(1, 3, 0), "--shard auto: LSB_JOBINDEX_STEP is 0, which is not the step of an array; "),
        ("auto", slurm([0, 1], 1, 0), "--shard auto: SLURM_ARRAY_TASK_STEP is 0, which is not the step of an array; "),
        ("auto", {"LSB_JOBINDEX": "1"}, "--shard auto: LSB_JOBINDEX_END is not set"),
        *[("auto", own, "no batch system says which shard this is") for own in NO_ARRAY],
        (
            "auto",
            {},
            r" \(SLURM_PROCID of srun, .*, SKYPILOT_NODE_RANK and JOB_COMPLETION_INDEX are not set\): .* I/N$",
        ),
        ("auto:0-3", {"SLURM_NTASKS": "4"}, "auto:0-3: this process is not a task of a job array"),
        ("auto", slurm(range(4), 1) | lsf(3, 4), r"TASK_ID=1\) says 2/4 and LSF \(LSB_JOBINDEX=3\) says 3/4"),
        ("auto", lsf(1, 2) | srun(1, 2), r"LSF \(LSB_JOBINDEX=1\) says 1/2 and srun \(SLURM_PROCID=1\) says 2/2: give"),
        *[("auto", slurm([1, 2], own), "ID is .* is not a whole number") for own in NO_NUMBERS],
        *[(f"auto:{own}", slurm([1, 2], 1), NO_RANGE) for own in ("", "3", "5-2", "0-3:0", "a-b", "0-3,7", "0--3")],
    ],
)
def test_what_does_not_say_enough_is_refused(text, environment, message):
    with pytest.raises(InputError, match=message):
        find_shard(text, environment)
