"""Suites whose models, runs and groups have names that are ours, or nearly one another's, as with neutral names."""

import json
import re
from collections import Counter
from functools import partial

import negengine as ng
import polars as pl
import pytest
from fake_exports import write_checkpoint
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from named_data import options, table
from negengine.engine.basics.apart import one_file
from negengine.engine.basics.paths import is_file_name
from negengine.engine.results.report.citation import cite
from pages import read
from pictures import refuse_faults_of_pictures

from ..test_names import NAMES, NEUTRAL, OURS, numbers

FOLDERS = st.sampled_from(["my_model", "my-model", "cond_a", "cond-a", "模型甲", "模型乙", "a,b", *OURS]).filter(
    lambda name: is_file_name(name) and name == name.strip()
)
PAIRS = st.lists(FOLDERS, min_size=2, max_size=2, unique_by=one_file)
STEPS = {"step1": 0.3, "step20": 0.1}


@pytest.fixture(scope="module")
def models(mini, tmp_path_factory):
    """What an export of the checkpoints of two training runs leaves."""
    folder = tmp_path_factory.mktemp("models")
    for number, own in enumerate(("one", "two")):
        for step, noise in STEPS.items():
            name = f"lab/{own}@{step}"
            write_checkpoint(mini.folder, folder / name, name, noise + 0.05 * number)
    return folder


@pytest.fixture(scope="module")
def ran(models, tmp_path_factory):
    """Runs a suite of two training runs and two probes on a table with these names."""

    def run(series, probes, names):
        place = tmp_path_factory.mktemp("suite")
        pl.DataFrame(table("likelihood", names)).write_csv(place / "table.csv")
        quoted = partial(json.dumps, ensure_ascii=False)
        lines = ["[run]", 'device = "cpu"', 'precision = "fp32"']
        for model, label in zip(("one", "two"), series, strict=True):
            lines += [
                "[[model]]",
                f'model = "lab/{model}"',
                f"label = {quoted(label)}",
                f"revisions = {quoted([*STEPS])}",
            ]
        for label in probes:
            given = {"name": label, "data": str(place / "table.csv"), **options("likelihood", names)}
            lines += ["[[probe]]", 'probe = "likelihood"', *(f"{key} = {quoted(own)}" for key, own in given.items())]
        (place / "suite.toml").write_text("\n".join(lines), "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NEGENGINE_MODELS", str(models))
            patch.setattr(constants, "HF_HUB_OFFLINE", True)
            close_session()  # they know whether the library is offline
            found = ng.suite(place / "suite.toml", output=place / "runs", progress=False)
        close_session()
        assert (found.failures, found.is_finished) == ({}, True)
        return found

    return run


def told(found):
    """The numbers that a suite gives, in each of its files and in those of its runs."""
    written = pl.read_csv(found.results, infer_schema_length=None)
    assert written.group_by("probe", "model").len().height == len(found.runs) == 8
    yield numbers(found.frame), numbers(written.select(name for name in written.columns if name in found.frame.columns))
    yield [numbers(own.figures) for own in found.tables()]
    page = read(found.report.read_text("utf-8"))
    yield Counter(own.name for own in page.everything() if own.name in {"table", "tr", "td", "h2", "svg", "circle"})
    refuse_faults_of_pictures(found.figures)
    yield Counter(path.suffix for path in found.figures)
    yield sorted(numbers(pl.read_csv(path)) for path in found.figures if path.suffix == ".csv")
    for probe in dict.fromkeys(probe for probe, _ in found.runs):
        runs = [run for (own, _), run in found.runs.items() if own == probe]
        assert not any(ng.verify(run, sample=4).damage for run in runs)
        said = " ".join(cite(*runs).methods)
        yield sorted(re.findall(r"\[95 % CI -?\d+\.\d+, -?\d+\.\d+\]|\(n = [\d,]+\)", said))
        compared = ng.compare(*runs)
        yield numbers(compared.frame), [numbers(own.figures) for own in compared.tables()]


@pytest.fixture(scope="module")
def plain(ran):
    return [*told(ran(("first", "second"), ("alpha", "beta"), NEUTRAL))]


def test_names_that_are_ours_or_nearly_alike_give_the_numbers_of_neutral_names_in_every_file_of_a_suite(ran, plain):
    for own, wanted in zip(told(ran(("my_model", "my-model"), ("all", "vs"), OURS[:10])), plain, strict=True):
        assert own == wanted


@pytest.mark.everything
@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
          phases=[Phase.explicit, Phase.generate])  # fmt: skip
@example(
    series=["模型甲", "模型乙"],
    probes=["cond_a", "cond-a"],
    names=["a|b", "a: b", "a=b", "x − y", "A", "1", "n", "*", "low", "p_holm"],
)
@given(series=PAIRS, probes=PAIRS, names=NAMES)
def test_any_names_give_the_numbers_of_neutral_names_in_every_file_of_a_suite(ran, plain, series, probes, names):
    for own, wanted in zip(told(ran(series, probes, names)), plain, strict=True):
        assert own == wanted
