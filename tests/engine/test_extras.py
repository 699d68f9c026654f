"""A package that is missing is told in one line, with the extra that installs it."""

import pytest
from negengine.engine.basics.errors import InputError, needs_extra


def test_a_missing_package_names_its_extra():
    with pytest.raises(InputError, match=r"^nli train needs accelerate: pip install 'negengine\[train\]'$"):  # noqa: SIM117
        with needs_extra("train", "nli train"):
            raise ModuleNotFoundError("No module named 'accelerate'", name="accelerate")


def test_a_module_of_the_program_that_is_missing_is_a_bug():
    with pytest.raises(ModuleNotFoundError), needs_extra("train", "nli train"):
        raise ModuleNotFoundError("No module named 'negengine.export.training'", name="negengine.export.training")
