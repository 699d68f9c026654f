"""The simulation gives what can be computed by hand, and what the process that gives out parts can do at most."""

import pytest
from negengine.bench.ray_simulation import Costs, saturation, simulate

FREE = Costs(part=1.0, spread=0.0, handling=1e-9, writing=1e-9, asking=0.0, network=0.0)


def test_workers_that_cost_nothing_decide_all_the_time():
    found = simulate(7, FREE)
    assert found.working == pytest.approx(1.0)
    assert found.parts == pytest.approx(7.0)


def test_one_worker_never_waits_as_it_has_two_parts():
    found = simulate(1, Costs(part=1.0, spread=0.0, handling=0.1, writing=0.1, asking=0.0, network=0.1), parts_each=200)
    assert found.working > 0.99


@pytest.mark.parametrize(("handling", "writing", "limit"), [(0.01, 0.001, 100.0), (0.001, 0.02, 50.0)])
def test_more_workers_do_not_help_beyond_the_limit(handling, writing, limit):
    costs = Costs(part=1.0, spread=0.2, handling=handling, writing=writing, asking=0.0)
    assert saturation(costs) == pytest.approx(limit)
    few, many = simulate(20, costs), simulate(1_000, costs)
    assert few.parts == pytest.approx(20, rel=0.1)
    assert many.parts == pytest.approx(limit, rel=0.05)
    assert many.working < 0.15
    assert max(many.handling, many.writing) > 0.95


def test_questions_take_time_of_the_first_thread():
    costs = Costs(part=1.0, spread=0.0, handling=0.01, writing=0.001, asking=0.0025)
    assert saturation(costs) == pytest.approx(50.0)
    assert simulate(1_000, costs).parts == pytest.approx(50.0, rel=0.05)


def test_the_same_seed_gives_the_same_run():
    costs = Costs(part=1.0, spread=0.5, handling=0.01, writing=0.01)
    assert simulate(50, costs, seed=3) == simulate(50, costs, seed=3) != simulate(50, costs, seed=4)
