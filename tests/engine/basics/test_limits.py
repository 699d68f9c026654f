import pytest
from negengine.engine.basics import limits

NONE, OLD = float("inf"), {"cpu/cpu.cfs_period_us": "100000"}
CASES = [
    ({}, NONE),
    ({"cpu.max": "max 100000"}, NONE),
    ({"cpu.max": "250000 100000"}, 2.5),
    ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000", "cpu.max": "800000 100000"}, 0.5),
    ({"cpu/cpu.cfs_quota_us": "-1", **OLD}, NONE),
    ({"cpu/cpu.cfs_quota_us": "300000", **OLD}, 3.0),
    ({"cpu.max": "nonsense"}, NONE),
]


@pytest.mark.parametrize(("files", "quota"), CASES)
def test_the_smallest_limit_of_a_container_counts(files, quota, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(limits, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("1:cpu:/elsewhere\n0::/a/b\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert limits.cpu_quota() == quota
    assert quota > 1 or limits.cpu_threads() == 1
    (tmp_path / "own").unlink()
    assert list(limits.control_groups()) == []
