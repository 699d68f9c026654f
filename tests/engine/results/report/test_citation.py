"""A citation has the run's own numbers, the papers that it used, and the facts of the checklist."""

import negengine as ng
import pytest
from negengine.engine.results.report.citation import cite


@pytest.fixture(scope="module")
def citation(scored_run):
    return cite(scored_run)


def test_the_paragraph_has_the_numbers_of_the_run(citation, scored_run):
    run = ng.open(scored_run)
    (text,) = citation.methods
    assert text.startswith("We tested mini (revision sha256:")
    assert "12 pairs of a name and a profession and 12 verbs" in text
    assert f"Of 144 candidates, the model repeated the verb in {run.selection.summary['repeating']:,}" in text
    for row in run.rates.filter(pattern="CpTn").to_dicts():
        assert f"CpTn {row['drop']:.1f} [{row['drop_low_two_way']:.1f}, {row['drop_high_two_way']:.1f}]" in text
    assert "(Kletz et al., 2023)" in text
    assert "All numbers were computed in fp32." in text
    assert f"negengine {run.record.sessions[0].negengine}" in text


def test_both_stages_count(citation, scored_run):
    from negengine.engine.runs.record import read_run

    sessions = [own for stage in read_run(scored_run).stages.values() for own in stage.sessions]
    assert f"{sum(own.sentences for own in sessions):,} sentences" in citation.facts["Compute"]


def test_the_facts_are_those_of_the_checklist(citation):
    wanted = {"Models", "Licences of models", "Parameters", "Compute", "Infrastructure", "Settings", "Seeds", "Runs"}
    assert wanted | {"Packages", "Licence of negengine"} <= set(citation.facts)
    assert citation.facts["Licences of models"] == "mini: apache-2.0"
    assert citation.facts["Parameters"] == "mini 15,884,576"
    assert citation.facts["Seeds"] == "0"
    assert "CPU core hours" in citation.facts["Compute"]
    assert "numpy " in citation.facts["Packages"]
    assert "torch " in citation.facts["Models were exported with"]


def test_the_papers_of_test_model_and_tool_are_there(citation):
    assert [reference.key for reference in citation.references] == [
        "negengine",
        "kletz-etal-2023-self",
        "devlin-etal-2019-bert",
    ]
    assert citation.bibtex.count("@") == 3


def test_two_runs_have_two_paragraphs_and_each_paper_once(scored_run, selected_run):
    both = ng.cite(selected_run, ng.open(scored_run))
    assert len(both.methods) == 2
    assert "Each triplet was scored" not in both.methods[0]
    assert len(both.references) == 3
    assert both.facts["Runs"].startswith("2, each once")


def test_without_a_run_there_is_nothing_to_cite():
    with pytest.raises(ng.InputError, match="no runs given"):
        ng.cite()


def test_a_run_that_recorded_no_export_is_cited_with_what_it_has(scores):
    text = cite(scores).text
    assert "Parameters: not recorded" in text
    assert "We tested mini." in text
