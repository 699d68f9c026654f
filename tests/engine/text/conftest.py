"""Fixtures for tests of texts and tables."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes bytes or text as a file, a CSV file by default."""

    def write(text, name="own.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
