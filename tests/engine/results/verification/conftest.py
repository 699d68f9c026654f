import shutil
from pathlib import Path

import negengine as ng
import pytest

WORDS = {
    "names_female": "Jessica",
    "names_male": "John",
    "professions": "a dancer",
    "verbs": "smoke, dance, sing, swim, walk, argue, sleep, hunt",
}


def check(verification, stage, what):
    [found] = [check for check in verification.checks if (check.of, check.what) == (stage, what)]
    return found


def damage(verification):
    return [(check.of, check.what) for check in verification.damage]


@pytest.fixture(scope="session")
def few_words(tmp_path_factory) -> Path:
    """2 pairs and 8 verbs make 16 candidates, few enough to decide all of them again."""
    folder = tmp_path_factory.mktemp("words")
    for name, words in WORDS.items():
        (folder / f"{name}.txt").write_text(words.replace(", ", "\n") + "\n", "utf-8")
    return folder


@pytest.fixture(scope="session")
def made(mini, few_words, tmp_path_factory) -> tuple[Path, Path]:
    """A finished selection from these words, and the same with its scores; tests do not change them."""
    model, folder = ng.load(mini.folder, device="cpu", precision="fp32"), tmp_path_factory.mktemp("few")
    selected = ng.select(model, lexicon=few_words, output=folder / "selected", progress=False).folder
    scored = shutil.copytree(selected, folder / "scored")
    return selected, ng.score(scored, model=model, progress=False).folder


@pytest.fixture
def selected(made, tmp_path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "run"))


@pytest.fixture
def scored(made, tmp_path) -> Path:
    return Path(shutil.copytree(made[1], tmp_path / "run"))


@pytest.fixture
def exported(mini, tmp_path) -> Path:
    return Path(shutil.copytree(mini.folder, tmp_path / "models" / "mini"))


@pytest.fixture(scope="session")
def detector(once) -> Path:
    """The export of a classifier of tokens."""
    from cue_detectors import write_detector
    from negengine.export.build import build

    return once("cue-detector", lambda folder: build(str(write_detector(folder / "detector")), folder / "out")) / "out"
