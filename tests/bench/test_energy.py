"""Energy is the sum of the packages' counters, or nothing."""

from negengine.bench.energy import _difference, _processor, energy_used


def _zone(folder, zone, name, microjoules):
    (folder / zone).mkdir()
    (folder / zone / "name").write_text(f"{name}\n")
    (folder / zone / "energy_uj").write_text(f"{microjoules}\n")


def test_packages_are_added_and_what_is_inside_them_is_not(tmp_path):
    _zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    _zone(tmp_path, "intel-rapl:0:0", "core", 3_000_000)
    _zone(tmp_path, "intel-rapl:1", "package-1", 2_500_000)
    assert _processor(tmp_path) == {"intel-rapl:0": 5, "intel-rapl:1": 2.5}


def test_a_counter_that_cannot_be_read_gives_nothing(tmp_path):
    _zone(tmp_path, "intel-rapl:0", "package-0", "no number")
    assert _processor(tmp_path) == {}


def test_readings_are_subtracted():
    assert _difference({"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 5.5}) == 2.5


def test_a_counter_that_started_anew_gives_nothing():
    assert _difference({"a": 9.0}, {"a": 3.0}) is None


def test_energy_of_this_machine_is_a_number_or_nothing():
    with energy_used() as used:
        sum(range(1000))
    assert used[0] is None or used[0] >= 0
