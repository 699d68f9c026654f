"""`ng.diagnostics`: options, results as frames, tables and one document, and what two runs are compared by."""

import shutil

import pytest
from negengine.engine.basics.choices import output_formats
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics, DiagnosticsRun
from negengine.engine.library.model import find_model
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from pages import drawn_figures

diagnostics = Diagnostics.function()


@pytest.fixture(scope="module")
def data(write, tmp_path_factory):
    """The small tables, with a word that is not one token."""
    changes = {"CPRAG_102": ("dog\tcat\tcar", "dog\tqzxqzx\tcar")}
    return write(tmp_path_factory.mktemp("data"), **changes)


@pytest.fixture(scope="module")
def model(mini):
    return find_model(mini.folder)


@pytest.fixture(scope="module")
def run(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return diagnostics(model, data=data, dataset=["CPRAG-102", "NEG-136-NAT"], draws=2, output=folder, progress=False)


def test_items_and_summary_are_frames(run):
    assert isinstance(run, DiagnosticsRun)
    assert run.items["dataset"].unique(maintain_order=True).to_list() == ["CPRAG-102", "NEG-136-NAT"]
    assert run.document() == {"run": str(run.folder), "summary": run.summary.to_dicts()}


def test_a_terminal_shows_one_short_table_and_details_on_request(run):
    [main] = run.main_tables()
    assert main.frame["dataset"].to_list() == ["CPRAG-102", "NEG-136-NAT"]
    keys = ("dataset", "condition", "split", "metric")
    figures = {tuple(row[key] for key in keys): row["value"] for row in run.summary.iter_rows(named=True)}
    natural = main.frame.row(1, named=True)
    assert natural["negative"] == figures["NEG-136-NAT", "original", "negative", "sensitivity"]
    assert natural["accuracy@5"] == figures["NEG-136-NAT", "original", "affirmative", "accuracy@5"]
    assert main.frame["negative"][0] is None
    assert repr(run.tables()[-1]) == repr(main)
    assert len(run.tables()) == 4


def test_words_outside_the_vocabulary_are_told_below_the_tables(run):
    assert run.remarks() == ["CPRAG-102: words that are not one token of the model: 1 (qzxqzx)"]


def test_all_tables_are_written_in_every_format(run):
    for form in output_formats():
        assert run.render(form)


def test_runs_are_compared_item_by_item(run, tmp_path):
    frame = compare(run, DiagnosticsRun.open(shutil.copytree(run.folder, tmp_path / "copy"))).frame
    assert set(frame["metric"]) == {"accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01"}
    assert frame.filter(dataset="CPRAG-102", condition="shuffled", split="all")["n"].to_list() == [4, 4]
    assert frame["difference"].to_list() == [0] * len(frame)


def test_runs_with_other_shuffles_are_not_compared(run, model, data, tmp_path):
    names = ["CPRAG-102", "NEG-136-NAT"]
    other = diagnostics(model, data=data, dataset=names, draws=2, seed=1, output=tmp_path / "other", progress=False)
    with pytest.raises(InputError, match="cannot be compared: seed 0, there 1"):
        compare(run, other)


@pytest.mark.parametrize(("change", "message"), [({"seed": 1}, "seed 0, now 1"), ({"draws": 3}, "draws 2, now 3")])
def test_a_folder_made_with_other_options_is_refused(run, model, data, change, message):
    options = {"dataset": ["CPRAG-102", "NEG-136-NAT"], "draws": 2, "output": run.folder, **change}
    with pytest.raises(InputError, match=message):
        diagnostics(model, data=data, **options)


def test_an_unknown_data_set_is_one_line(model, data):
    with pytest.raises(InputError, match="--dataset ROLE: did you mean 'ROLE-88'"):
        diagnostics(model, data=data, dataset="ROLE")


def test_the_figures_of_a_report_are_drawn(run):
    assert set(drawn_figures(run)) == {"sensitivity", "accuracy-1", "accuracy-5"}


def test_the_methods_paragraph_has_its_numbers(run):
    (text,) = cite(run).methods
    assert "the diagnostics of Ettinger, 2020" in text
    assert "CPRAG-102" in text
    assert cite(run).facts["Seeds"] == "0"
