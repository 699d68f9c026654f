"""What a cluster has is divided among workers."""

import pytest
from negengine.engine.errors import InputError
from negengine.engine.runs.ray_plan import Node, WorkerPlan, planned

LAPTOP, SMALL, GPUS = Node(8, 0), Node(2, 0), Node(16, 4)


def plans(*nodes, **asked):
    return [(plan.cpus, plan.gpus) for plan in planned(nodes, **asked)]


@pytest.mark.parametrize(
    ("nodes", "asked", "found"),
    [
        ([LAPTOP], {}, [(8, 0)]),
        ([LAPTOP, SMALL], {}, [(8, 0), (2, 0)]),
        ([Node(0, 0), SMALL], {}, [(2, 0)]),
        ([LAPTOP, SMALL], {"workers": 2}, [(8, 0), (2, 0)]),
        ([LAPTOP], {"workers": 3}, [(2, 0)] * 3),
        ([LAPTOP, LAPTOP], {"workers": 2}, [(8, 0)] * 2),
        ([LAPTOP], {"workers": 2, "cpus": 1.0}, [(1, 0)] * 2),
        ([SMALL], {"cpus": 0.5}, [(0.5, 0)] * 4),
        ([GPUS], {}, [(4, 1)] * 4),
        ([GPUS, LAPTOP], {}, [(4, 1)] * 4),
        ([GPUS], {"workers": 1}, [(16, 1)]),
        ([GPUS], {"gpus": 0.5}, [(2, 0.5)] * 8),
        ([GPUS], {"gpus": 2.0, "cpus": 3.0}, [(3, 2)] * 2),
        ([GPUS], {"gpus": 0.0}, [(16, 0)]),
        ([Node(1, 2)], {}, [(0.5, 1)] * 2),
    ],
)
def test_what_the_machines_have_is_divided(nodes, asked, found):
    assert plans(*nodes, **asked) == found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gpus": 8.0}, "--gpus-per-worker 8: the Ray cluster has 18 CPUs and 4 GPUs on 2 nodes, room for 0 workers"),
        ({"workers": 5}, "--workers 5 --gpus-per-worker 1: the Ray cluster has .*, room for 4 workers"),
        ({"cpus": 99.0, "gpus": 0.0}, "--cpus-per-worker 99: the Ray cluster has .*, room for 0 workers"),
        ({"workers": 19, "gpus": 0.0}, "--workers 19: the Ray cluster has .*, room for 18 workers"),
    ],
)
def test_more_than_there_is_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        planned([GPUS, SMALL], **asked)


def test_gpus_that_are_not_there_are_refused():
    with pytest.raises(InputError, match="--device cuda: the Ray cluster has 8 CPUs and 0 GPUs; use --device cpu"):
        planned([LAPTOP], needs_gpus=True)


def test_a_worker_has_a_thread_for_each_cpu():
    assert [WorkerPlan(cpus, 0).threads for cpus in (0.5, 1.0, 8.0)] == [1, 1, 8]
