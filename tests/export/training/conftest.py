"""The tiny encoder that trainings start from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_encoder import save_encoder


@pytest.fixture(scope="session")
def encoder(once) -> Callable[[str], Path]:
    """A folder with a tiny checkpoint: `whole`, or `without pooler`."""

    def make(kind: str = "whole") -> Path:
        return once(f"encoder-{kind}", lambda folder: save_encoder(folder, pooler=kind == "whole"))

    return make
