"""References: complete facts beside each probe, and BibTeX that LaTeX can read."""

import re
import shutil
import subprocess

import pytest
from negengine.engine.library.registry import probes
from negengine.engine.results.report.citation import Reference, model_references, probe_references, tool_reference

PAPERS = [(probe.name, paper) for probe in probes() for paper in probe_references(probe.references)]
ALL = [*(paper for _, paper in PAPERS), *model_references("bert"), *model_references("roberta"), tool_reference()]


@pytest.mark.parametrize("probe", probes(), ids=lambda probe: probe.name)
def test_every_probe_names_the_paper_of_its_test(probe):
    tests = [paper for paper in probe_references(probe.references) if paper.role == "test"]
    assert tests
    assert len(tests) == 1 or all(paper.dataset for paper in tests)  # one of them is cited: that of the method used


@pytest.mark.parametrize("paper", [paper for _, paper in PAPERS], ids=lambda paper: paper.key)
def test_a_paper_has_what_an_entry_needs(paper):
    assert paper.authors
    assert all(" " in author for author in paper.authors)
    assert paper.year
    assert paper.fields["url"].startswith("https://")
    assert re.fullmatch(r"\d+--\d+", paper.fields["pages"])
    assert {"inproceedings": "booktitle", "article": "journal"}[paper.kind] in paper.fields


def test_authors_are_cited_by_their_last_names():
    def label(*authors):
        return Reference("k", "misc", "T", authors, 2020, "test").label

    assert label("Allyson Ettinger") == "Ettinger, 2020"
    assert label("Nora Kassner", "Hinrich Schütze") == "Kassner and Schütze, 2020"
    assert label("A One", "B Two", "C Three") == "One et al., 2020"


def test_titles_keep_their_capitals_and_names_their_letters():
    paper = Reference("k", "misc", "What BERT & RoBERTa are", ("Hinrich Schütze",), 2020, "model", {"doi": "10.1/a_b"})
    assert paper.bibtex == (
        '@misc{k,\n  title = {What {BERT} \\& {RoBERTa} are},\n  author = {Hinrich Sch{\\"u}tze},\n'
        "  year = {2020},\n  doi = {10.1/a_b},\n}"
    ).replace('{\\"u}', paper.bibtex.partition("Sch")[2].partition("tze")[0])


def test_the_tool_is_cited_as_the_file_says():
    tool = tool_reference()
    assert tool.title.startswith("negengine")
    assert "0.1.0" in tool.fields["note"]
    assert "author = {{The negengine developers}}" in tool.bibtex


def test_a_family_without_papers_has_none():
    assert model_references("no such family") == ()


def test_bibtex_reads_all_entries(tmp_path):
    if not shutil.which("bibtex"):
        pytest.skip("no bibtex on this machine")
    keys = dict.fromkeys(paper.key for paper in ALL)
    (tmp_path / "all.bib").write_text("\n\n".join({paper.key: paper.bibtex for paper in ALL}.values()), "utf-8")
    cited = "".join(f"\\citation{{{key}}}\n" for key in keys)
    (tmp_path / "all.aux").write_text(f"\\relax\n{cited}\\bibstyle{{plain}}\n\\bibdata{{all}}\n")
    done = subprocess.run(["bibtex", "all"], cwd=tmp_path, capture_output=True, text=True, check=False)
    warnings = [line for line in done.stdout.splitlines() if line.startswith("Warning") and "negengine" not in line]
    assert (done.returncode, warnings) == (0, [])
    assert (tmp_path / "all.bbl").read_text().count("\\bibitem") == len(keys)
