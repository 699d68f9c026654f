"""A mutant that is put in place of a module does what it does when it is imported, or it is refused."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = """
from contextlib import contextmanager

LIMIT = 3

def below(n, limit=2):
    return n < limit

@contextmanager
def held(found):
    found.append("begin")
    yield
    found.append("end")

def adder(n):
    return lambda x: x + n

class Box:
    size = 1

    @property
    def double(self):
        return 2 * self.size

    def __init__(self):
        super().__init__()

larger = lambda n: n > LIMIT
"""


@pytest.fixture
def in_place(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    from mutation import in_place

    return in_place


@pytest.fixture
def boxes(tmp_path):
    """The module, imported from a file."""
    path = tmp_path / "boxes.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("boxes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def put(in_place, module, old, new):
    assert SOURCE.count(old) == 1
    functions = in_place.live_functions([module.__file__])
    return in_place.put_in_place(module.__file__, SOURCE, SOURCE.replace(old, new), functions)


def test_who_has_imported_a_function_has_the_mutants(in_place, boxes):
    below, box = boxes.below, boxes.Box()
    assert put(in_place, boxes, "n < limit", "n <= limit")
    assert put(in_place, boxes, "2 * self", "3 * self")
    assert put(in_place, boxes, "n > LIMIT", "n >= LIMIT")
    assert (below(2), box.double, boxes.larger(3)) == (True, 3, True)


def test_a_decorated_function_and_one_in_a_function_are_changed(in_place, boxes):
    found = []
    assert put(in_place, boxes, 'found.append("end")', "pass")
    with boxes.held(found):
        pass
    assert found == ["begin"]
    assert put(in_place, boxes, "x + n", "x - n")
    assert boxes.adder(1)(3) == 2


def test_lines_that_are_left_out_change_nothing_else(in_place, boxes):
    assert put(in_place, boxes, 'found.append("begin")\n    yield', "yield")
    assert (boxes.Box().double, boxes.larger(4)) == (2, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("limit=2", "limit=3"),
        ("size = 1", "size = 1.0"),
        ("@property", ""),
        ("@contextmanager\n", ""),
        ("super().__init__()", "pass"),  # it needs no class around it any more
    ],
)
def test_what_an_import_decides_cannot_be_put_in_place(in_place, boxes, old, new):
    assert not put(in_place, boxes, old, new)
