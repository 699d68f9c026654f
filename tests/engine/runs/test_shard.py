"""Shards divide a run completely, and their names are read as they are written.

`--shard auto`: every task of an array gets another shard of the same division, or one clear line.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.shard import Shard, changed_command, find_shard, is_guessed


@given(st.integers(0, 60), st.integers(1, 9))
def test_every_part_belongs_to_one_shard(n, count):
    shards = [Shard(index, count) for index in range(1, count + 1)]
    assert sorted(part for shard in shards for part in shard.parts(n)) == list(range(n))


def test_a_shard_has_every_count_th_part():
    assert list(Shard(2, 3).parts(9)) == [1, 4, 7]
    assert list(Shard(3, 3).parts(2)) == []


def test_the_whole_run_is_one_shard_of_one():
    assert Shard() == Shard(1, 1)
    assert Shard().is_whole
    assert not Shard(1, 2).is_whole


def test_a_shard_names_its_folder_and_the_whole_run_does_not():
    assert Shard(2, 3).suffix == "-2-of-3"
    assert Shard().suffix == ""


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 2), Shard(999_999_999, 999_999_999)])
def test_a_shard_is_read_as_it_is_written(shard):
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b",
        "-1/2",
        "0/2",
        "3/2",
        "0/0",
        "1/0",
        "1",
        "1/",
        "/2",
        "1/2/3",
        " 1/2",
        "1/2\n",
        "+1/2",
        "1/1000000000",
        "١/٢",
    ],
)
def test_what_is_not_a_shard_is_refused(text):
    with pytest.raises(InputError, match="must be I/N with I from 1 to N, such as 1/4"):
        Shard.parse(text)


def slurm(indices, index, step=1, **more):
    """The environment of a task, as sbatch --array sets it."""
    names = {"ID": index, "COUNT": len(indices), "MIN": min(indices), "MAX": max(indices), "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items()} | more


def srun(number, count, **more):
    return {"SLURM_PROCID": str(number), "SLURM_NTASKS": str(count), "SLURM_STEP_ID": "0", **more}


def lsf(index, last, step=1):
    return {"LSB_JOBINDEX": str(index), "LSB_JOBINDEX_END": str(last), "LSB_JOBINDEX_STEP": str(step)}


def all_of(text, environments):
    return [str(find_shard(text, environment)) for environment in environments]


@given(st.integers(0, 500), st.integers(2, 40), st.integers(1, 9))
def test_a_slurm_array_with_any_first_index_and_any_step(first, count, step):
    indices = range(first, first + count * step, step)
    shards = [find_shard("auto", slurm(indices, index, step)) for index in indices]
    assert shards == [Shard(number, count) for number in range(1, count + 1)]


def test_an_evenly_spaced_list_is_an_array_with_a_step():
    assert all_of("auto", [slurm([1, 5, 9], index, 4) for index in (1, 5, 9)]) == ["1/3", "2/3", "3/3"]


@pytest.mark.parametrize("step", [1, 2])
def test_a_list_with_gaps_is_refused(step):
    with pytest.raises(InputError, match=r"3 indices of this Slurm array \(1 to 9\) are not evenly spaced.*auto:0-15"):
        find_shard("auto", slurm([1, 2, 9], 2, step))


def test_a_single_task_that_is_submitted_again_is_refused_and_the_whole_array_helps():
    with pytest.raises(InputError, match="this Slurm array has one task, 7: if it belongs to a larger array, give the"):
        find_shard("auto", slurm([7], 7))
    assert str(find_shard("auto:0-15", slurm([7], 7))) == "8/16"


def test_the_whole_array_may_have_a_step():
    assert str(find_shard("auto:0-30:2", slurm([6], 6))) == "4/16"
    with pytest.raises(InputError, match="is 7, which is not an index of the array 0 to 30, step 2"):
        find_shard("auto:0-30:2", slurm([7], 7))


@pytest.mark.parametrize("index", [0, 17])
def test_a_task_outside_of_the_array_that_is_named_is_refused(index):
    with pytest.raises(InputError, match=rf"SLURM_ARRAY_TASK_ID is {index}, which is not an index of the array 1 to"):
        find_shard("auto:1-16", slurm([index], index))


def test_the_tasks_of_one_srun():
    assert all_of("auto", [srun(number, 3) for number in range(3)]) == ["1/3", "2/3", "3/3"]
    step = {"SLURM_STEP_NUM_TASKS": "2"}  # a smaller step than the job
    assert str(find_shard("auto", srun(1, 8, **step))) == "2/2"


def test_tasks_that_know_nothing_but_their_number():
    assert all_of("auto", [{"SLURM_PROCID": str(n), "SLURM_NTASKS": "2"} for n in range(2)]) == ["1/2", "2/2"]


def test_srun_inside_of_an_array_divides_each_task_of_the_array():
    environments = [slurm([4, 5], index, **srun(number, 3)) for index in (4, 5) for number in range(3)]
    assert all_of("auto", environments) == [f"{n}/6" for n in range(1, 7)]
    again = [slurm([5], 5, **srun(number, 3)) for number in range(3)]
    assert all_of("auto:4-5", again) == ["4/6", "5/6", "6/6"]


def test_a_batch_script_is_not_a_task_of_srun():
    """It has SLURM_PROCID=0, too."""
    script = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}
    with pytest.raises(InputError, match="or put srun before the command, which starts it 8 times"):
        find_shard("auto", script)
    assert str(find_shard("auto", slurm([0, 1], 1, **script))) == "2/2"


def test_a_number_of_srun_that_cannot_be_is_refused():
    with pytest.raises(InputError, match=r"SLURM_PROCID is 3, of 3 tasks: give --shard I/N"):
        find_shard("auto", srun(3, 3))
    with pytest.raises(InputError, match=r"SLURM_PROCID is 1, of 3 tasks, and SLURM_STEP_ID is not set"):
        find_shard("auto", {"SLURM_JOB_ID": "1", "SLURM_PROCID": "1", "SLURM_NTASKS": "3"})


@pytest.mark.parametrize(
    ("system", "variable"),
    [("PBS", "PBS_ARRAY_INDEX"), ("Torque", "PBS_ARRAYID"), ("Kubernetes", "JOB_COMPLETION_INDEX")],
)
def test_systems_that_do_not_say_how_many_tasks_there_are(system, variable):
    with pytest.raises(
        InputError, match=rf"{system} does not say how many tasks the array has \({variable} is 3\): give"
    ):
        find_shard("auto", {variable: "3"})
    assert str(find_shard("auto:1-16", {variable: "3"})) == "3/16"
    assert str(find_shard("auto:0-15", {variable: "3"})) == "4/16"


def test_an_array_of_lsf_begins_with_one():
    assert all_of("auto", [lsf(index, 3) for index in (1, 2, 3)]) == ["1/3", "2/3", "3/3"]
    assert all_of("auto", [lsf(index, 9, 4) for index in (1, 5, 9)]) == ["1/3", "2/3", "3/3"]
    assert str(find_shard("auto:5-8", lsf(6, 8))) == "2/4"
    with pytest.raises(InputError, match="this LSF array has one task, 1"):
        find_shard("auto", lsf(1, 1))
    with pytest.raises(InputError, match="LSB_JOBINDEX is 4, which is not an index of the array 1 to 9, step 4"):
        find_shard("auto", lsf(4, 9, 4))


def test_a_job_of_lsf_that_is_not_an_array_has_the_index_zero():
    with pytest.raises(InputError, match="no batch system says which shard this is"):
        find_shard("auto", lsf(0, 0, 0))


def test_the_nodes_of_skypilot():
    nodes = [{"SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": "2"} for rank in range(2)]
    assert all_of("auto", nodes) == ["1/2", "2/2"]


def test_no_batch_system_at_all():
    with pytest.raises(InputError, match=r"no batch system says .*: give --shard I/N$"):
        find_shard("auto", {})
    with pytest.raises(InputError, match="auto:0-3: this process is not a task of a job array"):
        find_shard("auto:0-3", {"SLURM_NTASKS": "4"})


def test_two_systems_that_disagree():
    with pytest.raises(
        InputError, match=r"Slurm \(SLURM_ARRAY_TASK_ID=1\) says 2/4 and LSF \(LSB_JOBINDEX=3\) says 3/4"
    ):
        find_shard("auto", slurm(range(4), 1) | lsf(3, 4))


def test_two_systems_that_agree_are_one_array():
    """As where a site sets the variables of another system for old scripts."""
    assert str(find_shard("auto:0-3", slurm(range(4), 1, PBS_ARRAY_INDEX="1"))) == "2/4"


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 10, "٣", "1 2"])
def test_a_variable_that_is_not_a_number(value):
    with pytest.raises(InputError, match=r"SLURM_ARRAY_TASK_ID is .* is not a whole number: give --shard I/N"):
        find_shard("auto", slurm([1, 2], value))


def test_an_array_that_does_not_say_its_size():
    with pytest.raises(InputError, match="SLURM_ARRAY_TASK_COUNT, SLURM_ARRAY_TASK_MIN or SLURM_ARRAY_TASK_MAX is not"):
        find_shard("auto", {"SLURM_ARRAY_TASK_ID": "1"})


@pytest.mark.parametrize("text", ["auto:", "auto:3", "auto:5-2", "auto:0-3:0", "auto:a-b", "auto:0-3,7", "auto:0--3"])
def test_a_range_that_is_not_one(text):
    with pytest.raises(InputError, match="must be auto:FIRST-LAST, the indices of the whole array, such as auto:0-15"):
        find_shard(text, slurm([1, 2], 1))


@pytest.mark.parametrize("text", ["2/3", "1/1"])
def test_a_shard_that_is_named_needs_no_batch_system(text):
    assert str(find_shard(text, slurm([1, 2], 1))) == text


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("negengine select mini --shard auto", "negengine select mini --shard 2/4 --output 'a b'"),
        (
            "negengine select mini --shard=1/2 --output a --seed 3",
            "negengine select mini --seed 3 --shard 2/4 --output 'a b'",
        ),
        (
            "/bin/negengine select 'my model' -oa -v --output=a -o a",
            "/bin/negengine select 'my model' -v --shard 2/4 --output 'a b'",
        ),
        ("negengine select mini --pairs 3 --shard", "negengine select mini --pairs 3 --shard 2/4 --output 'a b'"),
        ("python script.py --shard 1/2", None),
        ("negengine 'not closed", None),
        ("", None),
    ],
)
def test_a_command_line_gets_other_values_of_options(command, changed):
    assert changed_command(command, shard=Shard(2, 4), output="a b") == changed


def test_an_option_of_a_command_line_is_removed():
    assert changed_command("negengine lama m --shard 1/2 -o x", shard=None) == "negengine lama m -o x"


def test_only_auto_alone_is_guessed():
    assert [is_guessed(text) for text in ("auto", "auto:0-3", "1/4", None)] == [True, False, False, False]
