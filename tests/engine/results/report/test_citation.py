"""A citation has the run's own numbers, the papers that it used, BibTeX, and the facts of the checklist."""

import re
import shutil
import subprocess

import negengine as ng
import pytest
from negengine.engine.library.registry import experiment, experiments
from negengine.engine.results.report.citation import Reference, model_references, probe_references, tool_reference
from negengine.engine.results.report.usage import usage
from negengine.engine.runs.record import Session, StageRecord, read_run

PROBES = [experiment(name) for name in experiments()]
PAPERS = [paper for file in {probe.references for probe in PROBES} for paper in probe_references(file)]
GPU = {"device": "cuda:0", "hardware": "NVIDIA H200", "memory GiB": 139.8, "driver": "580.95", "batch tokens": 16384}
CPU = {"device": "cpu", "hardware": "A CPU", "threads": 2, "batch tokens": 512}
MACHINE = {"system": "Linux x86_64", "cores": 4, "memory GiB": 24.0}


@pytest.fixture(scope="module")
def citation(scored_run):
    return ng.cite(scored_run)


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


def test_the_facts_are_those_of_the_checklist(citation, scored_run):
    facts = citation.facts
    assert {"Models", "Infrastructure", "Settings", "Runs", "Licence of negengine"} <= set(facts)
    wanted = {"Licences of models": "mini: apache-2.0", "Parameters": "mini 15,884,576", "Seeds": "0"}
    assert {name: facts[name] for name in wanted} == wanted
    sessions = [own for stage in read_run(scored_run).stages.values() for own in stage.sessions]
    sentences = f"{sum(own.sentences for own in sessions):,} sentences"  # both stages
    told = {"Packages": "numpy ", "Models were exported with": "torch ", "Compute": "CPU core hours"}
    assert all(text in facts[name] for name, text in [*told.items(), ("Compute", sentences)])


def test_two_runs_have_two_paragraphs_and_each_paper_once(citation, scored_run, selected_run, scores):
    keys = ["negengine", "kletz-etal-2023-self", "devlin-etal-2019-bert"]
    assert [reference.key for reference in citation.references] == keys
    assert citation.bibtex.count("@") == 3
    both = ng.cite(selected_run, ng.open(scored_run))
    assert len(both.methods) == 2
    assert "Each triplet was scored" not in both.methods[0]
    assert len(both.references) == 3
    assert both.facts["Runs"].startswith("2, each once")
    with pytest.raises(ng.InputError, match="no runs given"):
        ng.cite()
    bare = ng.cite(scores).text  # a run that recorded no export is cited with what it has
    assert "Parameters: not recorded" in bare
    assert "We tested mini." in bare


def used(*sessions):
    return usage([StageRecord(identity={}, parts=1, sessions=list(sessions))])


def session(*workers, **more):
    return Session(workers=list(workers), machine=MACHINE, **more)


def test_usage_is_the_sum_over_sessions():
    found = used(session(GPU, GPU, seconds=3600.0, sentences=3), session(CPU, seconds=1800.0, sentences=4, tokens=40))
    assert (found.gpu_hours, found.core_hours, found.hours) == (2.0, 1.0, 1.5)
    assert (found.sentences, found.tokens) == (7, 40)
    assert found.hardware == ("NVIDIA H200 (139.8 GiB, driver 580.95)", "A CPU (4 cores, 24.0 GiB)")
    assert found.batch_tokens == (16384, 512)
    alike = {**CPU, "threads": 8, "workers": 5, "machine": {"cores": 16, "memory GiB": 64.0}}  # one entry for five
    found = used(session(alike, seconds=3600.0), session({**GPU, "GPUs": 0.5, "workers": 4}, seconds=3600.0))
    assert (found.core_hours, found.gpu_hours) == (40.0, 2.0)
    assert found.hardware[0] == "A CPU (16 cores, 64.0 GiB)"
    first, second = session(CPU, joules={"cpu": 3600.0}), session(CPU, joules={"cpu": 1800.0, "cuda:0": 1800.0})
    assert used(first, second).watt_hours == pytest.approx(2.0)
    assert used(first, session(CPU)).watt_hours is None  # told only if every session could read it
    assert used(Session(seconds=100.0, merged=["a", "b"])).sessions == 0
    found = used(session(CPU, packages={"numpy": "2.0"}), session(CPU, packages={"numpy": "2.1"}))
    assert found.packages["numpy"] == ("2.0", "2.1")


# ---------------------------------------------------------------- references


def test_every_probe_names_the_paper_of_its_test_with_what_an_entry_needs():
    for probe in PROBES:
        tests = [paper for paper in probe_references(probe.references) if paper.role == "test"]
        assert tests, probe.name
        assert len(tests) == 1 or all(paper.dataset for paper in tests)  # that of the method used is cited
    assert model_references("no such family") == ()
    for paper in PAPERS:
        assert paper.authors, paper.key
        assert all(" " in author for author in paper.authors), paper.key
        assert paper.year, paper.key
        assert paper.fields["url"].startswith("https://"), paper.key
        if paper.kind == "misc":  # a preprint
            assert paper.fields["url"] == f"https://arxiv.org/abs/{paper.fields['eprint']}", paper.key
        else:
            assert re.fullmatch(r"\d+--\d+", paper.fields["pages"]), paper.key
            assert {"inproceedings": "booktitle", "article": "journal"}[paper.kind] in paper.fields, paper.key


def test_an_entry_keeps_capitals_and_letters_and_is_cited_by_last_names():
    def paper(*authors):
        return Reference("k", "misc", "What BERT & RoBERTa are", authors, 2020, "model", {"doi": "10.1/a_b"})

    schuetze, both = paper("Hinrich Schütze"), paper("Nora Kassner", "Hinrich Schütze")
    assert "title = {What {BERT} \\& {RoBERTa} are}," in schuetze.bibtex
    fields = r"author = \{Hinrich Sch[^ü]+tze\},\n  year = \{2020\},\n  doi = \{10.1/a_b\},\n\}$"
    assert re.search(fields, schuetze.bibtex)
    labels = [one.label for one in (schuetze, both, paper("A One", "B Two", "C Three"))]
    assert labels == ["Schütze, 2020", "Kassner and Schütze, 2020", "One et al., 2020"]
    tool = tool_reference()
    assert tool.title.startswith("negengine")
    for field in ("author = {{The negengine developers}}", "note = {Software, version 0.1.0}"):
        assert field in tool.bibtex
    assert re.search(r"year = \{20\d\d\},", tool.bibtex)


def test_bibtex_reads_all_entries(tmp_path):
    if not shutil.which("bibtex"):
        pytest.skip("no bibtex on this machine")
    every = [*PAPERS, *model_references("bert"), *model_references("roberta"), tool_reference()]
    keys = dict.fromkeys(paper.key for paper in every)
    (tmp_path / "all.bib").write_text("\n\n".join({paper.key: paper.bibtex for paper in every}.values()), "utf-8")
    cited = "".join(f"\\citation{{{key}}}\n" for key in keys)
    (tmp_path / "all.aux").write_text(f"\\relax\n{cited}\\bibstyle{{plain}}\n\\bibdata{{all}}\n")
    done = subprocess.run(["bibtex", "all"], cwd=tmp_path, capture_output=True, text=True, check=False)
    warnings = [line for line in done.stdout.splitlines() if line.startswith("Warning")]
    assert (done.returncode, warnings) == (0, [])
    assert (tmp_path / "all.bbl").read_text().count("\\bibitem") == len(keys)
