"""The shards of a run are found by the run's name, by a pattern or by their folder; another division is refused."""

import pytest
from negengine.engine.errors import InputError
from negengine.engine.runs.divisions import default_output, find_shards, named_shard, refuse_other_division
from negengine.engine.runs.shard import Shard
from small_stages import work


@pytest.fixture
def shards(tmp_path):
    """Makes folders with the names of shards, without a run in them."""

    def make(*names):
        for name in names:
            (tmp_path / name).mkdir(parents=True)
        return tmp_path

    return make


def names(folders):
    return [folder.name for folder in folders]


def test_a_folder_is_named_as_the_shard_says(tmp_path):
    assert named_shard(tmp_path / f"a-b{Shard(2, 3).suffix}") == (tmp_path / "a-b", Shard(2, 3))


@pytest.mark.parametrize(
    "name", ["mini", "mini-of-3", "mini-0-of-3", "mini-4-of-3", "-1-of-2", "mini-1-of-1", "m-x-of-2"]
)
def test_other_names_are_not_shards(tmp_path, name):
    assert named_shard(tmp_path / name) is None


def test_shards_are_found_by_the_name_of_the_run_in_the_order_of_their_numbers(shards):
    folder = shards(*(f"mini-{n}-of-10" for n in range(10, 0, -1)), "mini-x", "mini-lama-1-of-2", "other-1-of-2")
    assert names(find_shards([folder / "mini"])) == [f"mini-{n}-of-10" for n in range(1, 11)]


def test_the_whole_run_may_be_there_already(shards):
    folder = shards("mini-1-of-2", "mini-2-of-2")
    work(folder / "mini")
    assert names(find_shards([folder / "mini"])) == ["mini-1-of-2", "mini-2-of-2"]


def test_shards_are_found_by_a_pattern_and_in_their_folder(shards):
    folder = shards("runs/mini-1-of-2", "runs/mini-2-of-2", "runs/logs")
    for given in (folder / "runs/mini-*-of-2", folder / "runs"):
        assert names(find_shards([given])) == ["mini-1-of-2", "mini-2-of-2"]


def test_folders_of_shards_are_taken_as_they_are_given(shards):
    folder = shards("mini-1-of-2", "mini-2-of-2", "own")
    assert names(find_shards([folder / "mini-2-of-2", folder / "own"])) == ["mini-2-of-2", "own"]


def test_shards_of_several_runs_are_refused(shards):
    folder = shards("runs/a-1-of-2", "runs/b-1-of-2", "runs/b-1-of-3")
    with pytest.raises(InputError, match=r"shards of several runs: give one of .*a-\*-of-2, .*b-\*-of-2, .*b-\*-of-3"):
        find_shards([folder / "runs"])
    with pytest.raises(InputError, match=r"give one of .*b-\*-of-2, .*b-\*-of-3$"):
        find_shards([folder / "runs/b"])


def test_a_pattern_without_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"mini-\*: no folder matches this pattern"):
        find_shards([tmp_path / "mini-*"])


def test_the_name_of_the_whole_run_follows_from_its_shards(tmp_path):
    assert default_output([tmp_path / "a-1-of-2", tmp_path / "a-2-of-2"]) == tmp_path / "a"
    for folders in (["a-1-of-2", "b-2-of-2"], ["a-1-of-2", "own"], []):
        with pytest.raises(InputError, match="give --output RUN"):
            default_output([tmp_path / name for name in folders])


def test_some_tasks_of_an_array_that_are_submitted_again_are_not_a_smaller_array(tmp_path):
    """Tasks 3 to 7 of 16: five tasks, side by side."""
    for index in (1, 2):
        work(tmp_path / f"mini-{index}-of-16", shard=Shard(index, 16))
    with pytest.raises(InputError, match=r"shards of mini in 16, not all finished, and this array has 5 tasks.*0-15"):
        refuse_other_division(tmp_path / "mini", Shard(1, 5))
    refuse_other_division(tmp_path / "mini", Shard(3, 16))
    refuse_other_division(tmp_path / "other", Shard(1, 5))


def test_a_finished_division_is_no_obstacle_to_another_one(tmp_path):
    for index in (1, 2):
        work(tmp_path / f"mini-{index}-of-2", shard=Shard(index, 2))
    refuse_other_division(tmp_path / "mini", Shard(1, 5))
