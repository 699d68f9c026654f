"""What the tests of several probes share."""

import pytest
import torch


@pytest.fixture(scope="module")
def one_thread():
    """PyTorch computes in one thread: for one short sentence several threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
