"""`negengine cite` and `negengine reproduce`: what they print, in which form, and how they end."""

import json

import pytest
from negengine.engine.runs.record import read_run


def test_a_citation_is_text_bibtex_alone_or_one_document(scored_run, selected_run, command):
    done = command("cite", scored_run)
    assert done.status == 0
    said = f"`negengine cite {scored_run} --format bibtex > references.bib` writes the BibTeX alone\n"
    assert done.err.endswith(said)
    assert done.out.startswith("Methods\n\nWe tested mini")
    assert "\nFor the Responsible NLP checklist\n" in done.out
    assert "\n@inproceedings{kletz-etal-2023-self,\n" in done.out
    alone = command("cite", scored_run, "--format", "bibtex")
    assert (alone.out.partition("\n")[0], alone.out[-2:], alone.err) == ("@misc{negengine,", "}\n", "")
    found = json.loads(command("cite", scored_run, selected_run, "--format", "json").out)
    assert (set(found), len(found["methods"])) == ({"methods", "facts", "bibtex"}, 2)


@pytest.mark.parametrize("name", ["cite", "reproduce", "report", "figures"])
def test_what_is_not_a_run_is_one_line(name, command, tmp_path):
    (tmp_path / "other").mkdir()
    done = command(name, "other", *(["-o", "new"] if name != "cite" else []))
    assert done.status == 2
    assert done.said == "negengine: other is not a run folder: it has no run.json"
    assert not (tmp_path / "new").exists()


def test_a_reproduction_says_that_the_bytes_are_the_same(scored_run, command, tmp_path):
    done = command("reproduce", scored_run, "-o", "again", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["same"] is True
    session = read_run(tmp_path / "again").stages["score"].sessions[0]
    assert session.command.startswith("negengine reproduce ")
