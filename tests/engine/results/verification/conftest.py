"""Copies of finished runs and exports that a test may damage."""

import shutil
from pathlib import Path

import negengine as ng
import pytest

WORD_LISTS = {
    "names_female.txt": ["Jessica"],
    "names_male.txt": ["John"],
    "professions.txt": ["a dancer"],
    "verbs.txt": ["smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt"],
}


@pytest.fixture
def scored(scored_run, tmp_path) -> Path:
    """A copy of a finished selection with its scores."""
    return Path(shutil.copytree(scored_run, tmp_path / "run"))


@pytest.fixture(scope="session")
def few_words(tmp_path_factory) -> Path:
    """A folder of word lists: 2 pairs and 8 verbs make 16 candidates, few enough to decide all of them again."""
    folder = tmp_path_factory.mktemp("words")
    for name, words in WORD_LISTS.items():
        (folder / name).write_text("".join(f"{word}\n" for word in words), "utf-8")
    return folder


@pytest.fixture(scope="session")
def made(mini, few_words, tmp_path_factory) -> tuple[Path, Path]:
    """A finished selection from these words, and the same with its scores; tests do not change them."""
    model, folder = ng.load(mini.folder, device="cpu", precision="fp32"), tmp_path_factory.mktemp("few")
    selected = ng.select(model, lexicon=few_words, output=folder / "selected", progress=False).folder
    return selected, ng.score(selected, output=folder / "scored", progress=False).folder


@pytest.fixture
def selected(made, tmp_path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "run"))


@pytest.fixture
def few(made, tmp_path) -> Path:
    """A copy of a small run with its scores."""
    return Path(shutil.copytree(made[1], tmp_path / "run"))


@pytest.fixture
def exported(mini, tmp_path) -> Path:
    """A copy of the bundled model's export."""
    return Path(shutil.copytree(mini.folder, tmp_path / "models" / "mini"))
