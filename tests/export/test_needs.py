"""Memory and disk that an export needs, from the checkpoint's size alone."""

import numpy as np
import pytest
from negengine.engine.basics.errors import InputError
from negengine.export.checkpoint import Source
from negengine.export.needs import Needs, check, estimate, free_disk, free_memory
from safetensors.numpy import save_file


def source(folder):
    return Source("tiny", str(folder), "sha256:0", is_local=True, origin=str(folder))


def weights(folder, **tensors):
    save_file(tensors, folder / "model.safetensors")


def test_needs_follow_from_the_files_of_weights(tmp_path):
    assert estimate(source(tmp_path), 1) is None
    weights(tmp_path, a=np.zeros(1000, np.float32))
    small = estimate(source(tmp_path), 2)
    weights(tmp_path, a=np.zeros(1000, np.float32), b=np.zeros(500, np.float32))
    large = estimate(source(tmp_path), 2)
    assert (small.disk, large.disk) == (2 * 4000, 2 * 6000)
    assert large.memory > small.memory > 0
    weights(tmp_path, a=np.zeros(1000, np.float16), b=np.zeros(10, np.float32))  # fp16 counts twice
    (tmp_path / "pytorch_model.bin").write_bytes(b"0" * 9000)  # beside safetensors it does not count
    assert estimate(source(tmp_path), 1).disk == 4040
    (tmp_path / "model.safetensors").unlink()
    assert estimate(source(tmp_path), 1).disk == 9000


@pytest.mark.parametrize(
    ("memory", "disk", "said"),
    [
        (6e9, 9e9, "tiny: exporting it needs about 7.0 GB of memory and 2.0 GB of disk, but only 6.0 GB of memory"),
        (9e9, 1e9, "tiny: exporting it needs about 7.0 GB of memory and 2.0 GB of disk, but only 1.0 GB are free in "),
    ],
)
def test_too_little_is_refused(memory, disk, said, tmp_path):
    with pytest.raises(InputError, match=said):
        check(Needs(7e9, 2e9), "tiny", tmp_path, memory=memory, disk=disk)


def test_enough_is_not_refused_and_this_machine_has_some_of_both(tmp_path):
    check(Needs(7e9, 2e9), "tiny", tmp_path, memory=8e9, disk=8e9)
    assert free_memory() > 1e8
    assert free_disk(tmp_path / "not" / "there") > 0
