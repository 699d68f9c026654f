"""Small tables made by hand, the real ones, and a whole run of them with the bundled model."""

import csv
from pathlib import Path

import pytest
from asked_stages import diagnostics_stage
from negengine.engine.experiments.diagnostics.files import read_diagnostics
from negengine.engine.experiments.items import ITEMS_FILE, SUMMARY_FILE
from negengine.engine.inference.model import MaskedLM
from negengine.engine.runs.stage import FinishedParts

TABLES = {
    "CPRAG-102": """\
item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint
0\tThe dog ran.\tAt last it came to the\tdog\tcat\tcar\tH
1\tThe red car. It was new.\tShe\ttree\tdog\thouse\tL
""",
    "ROLE-88": """\
item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)
1-b\tthe man forgot which waitress the customer had \ttipped|paid for\t0.2\tserved\t0\t0
1-a\tthe man forgot which customer the waitress had \tserved\t0.6\tserved\t0.6\t0.6
""",
    "NEG-136-SIMP": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg
0\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect
""",
    "NEG-136-NAT": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing
0\tOld cars are\tOld cars aren't\tslow\tfast\tY
1\tNew cars are\tNew cars aren't\tfast\tslow\tN
""",
}


def write_tables(folder, **changes):
    """The tables above in a folder, some of them with other text: (old, new) by their names with underscores."""
    for name, text in TABLES.items():
        old, new = changes.get(name.replace("-", "_"), ("", ""))
        assert old in text
        (folder / f"{name}.tsv").write_bytes(text.replace(old, new, 1).encode("utf-8", "surrogateescape"))
    return folder


@pytest.fixture(scope="session")
def write():
    return write_tables


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    return read_diagnostics(write_tables(tmp_path_factory.mktemp("small")))


@pytest.fixture(scope="session")
def folder(shared):
    return shared / "data/datasets/lm-diagnostics"


@pytest.fixture(scope="session")
def real(folder):
    return read_diagnostics(folder)


@pytest.fixture(scope="session")
def rows_of(folder):
    """Name → the rows of a real table, read by other code."""

    def read(name):
        with (folder / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    return read


@pytest.fixture(scope="session")
def decided():
    """What a stage publishes with a model: items and summary. All items are in one part."""

    def decide(stage, model):
        assert len(stage.parts) == 1
        part = stage.decide(model, 0, stage.prepare(0), lambda _done, _sentences: None)
        files = stage.publish(FinishedParts(Path(), part.rows.lazy(), {}, {}))
        return files[ITEMS_FILE], files[SUMMARY_FILE]

    return decide


@pytest.fixture(scope="session")
def finished(mini, real, decided):
    """Items and summary of the real data."""
    return decided(diagnostics_stage(mini, real, draws=2, seed=7, items_per_part=10_000), MaskedLM(mini))
