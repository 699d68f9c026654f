import re
import unicodedata

import negengine as ng
import pytest
from negengine.engine.experiments.registry import experiment, experiments
from negengine.engine.results.report.citation import model_references, probe_references, tool_reference
from negengine.engine.results.report.usage import usage
from negengine.engine.runs.record import Session, StageRecord, read_run

GPU = {"device": "cuda:0", "hardware": "NVIDIA H200", "memory GiB": 139.8, "driver": "580.95", "batch tokens": 16384}
CPU = {"device": "cpu", "hardware": "A CPU", "threads": 2, "batch tokens": 512}
MACHINE = {"system": "Linux x86_64", "cores": 4, "memory GiB": 24.0}


def test_a_citation_has_the_numbers_of_the_run_and_the_facts_of_the_checklist(scored_run, selected_run, scores):
    run, citation = ng.open(scored_run), ng.cite(scored_run)
    (text,) = citation.methods
    drops = run.rates.filter(pattern="CpTn").select("drop", "drop_low_two_way", "drop_high_two_way").row(0)
    for said in (
        "We tested mini (revision sha256:",
        "12 pairs of a name and a profession and 12 verbs",
        f"Of 144 candidates, the model repeated the verb in {run.selection.summary['repeating']:,}",
        "CpTn {:.1f} [95 % CI {:.1f}, {:.1f}]".format(*drops),
        "(Kletz et al., 2023)",
        "All numbers were computed in fp32.",
        f"negengine {run.record.sessions[0].negengine}",
    ):
        assert said in text
    facts, sessions = citation.facts, [own for stage in read_run(scored_run).stages.values() for own in stage.sessions]
    assert {"Models", "Infrastructure", "Settings", "Runs", "Licence of negengine"} <= set(facts)
    wanted = {"Licences of models": "mini: apache-2.0", "Parameters": "mini 15,884,576", "Seeds": "0"}
    assert {name: facts[name] for name in wanted} == wanted
    told = {"Packages": "numpy ", "Models were exported with": "torch ", "Compute": "CPU core hours"}
    assert all(text in facts[name] for name, text in told.items())
    assert f"{sum(own.sentences for own in sessions):,} sentences" in facts["Compute"]  # of both stages
    keys = ["negengine", "kletz-etal-2023-self", "devlin-etal-2019-bert"]
    assert [reference.key for reference in citation.references] == keys
    both = ng.cite(selected_run, run)
    assert "Each triplet was scored" not in both.methods[0]
    assert (len(both.methods), both.bibtex.count("@"), both.facts["Runs"][:12]) == (2, 3, "2, each once")
    with pytest.raises(ng.InputError, match="no runs given"):
        ng.cite()
    bare = ng.cite(scores).text  # a run that recorded no export is cited with what it has
    assert "Parameters: not recorded" in bare
    assert "We tested mini." in bare


def test_usage_is_the_sum_over_sessions():
    def used(*sessions):
        return usage([StageRecord(identity={}, parts=1, sessions=list(sessions))])

    def session(*workers, **more):
        return Session(workers=list(workers), machine=MACHINE, **more)

    found = used(session(GPU, GPU, seconds=3600.0, sentences=3), session(CPU, seconds=1800.0, sentences=4, tokens=40))
    assert (found.gpu_hours, found.core_hours, found.hours) == (2.0, 1.0, 1.5)
    assert (found.sentences, found.tokens) == (7, 40)
    assert found.hardware == ("NVIDIA H200 (139.8 GiB, driver 580.95)", "A CPU (4 cores, 24.0 GiB)")
    assert found.batch_tokens == (16384, 512)
    alike = {**CPU, "threads": 8, "workers": 5, "machine": {"cores": 16, "memory GiB": 64.0}}  # one entry for five
    found = used(session(alike, seconds=3600.0), session({**GPU, "GPUs": 0.5, "workers": 4}, seconds=3600.0))
    assert (found.core_hours, found.gpu_hours) == (40.0, 2.0)
    assert found.hardware[0] == "A CPU (16 cores, 64.0 GiB)"
    assert used(Session(seconds=100.0, merged=["a", "b"])).sessions == 0
    found = used(session(CPU, packages={"numpy": "2.0"}), session(CPU, packages={"numpy": "2.1"}))
    assert found.packages["numpy"] == ("2.0", "2.1")


def test_every_probe_names_the_paper_of_its_test_with_what_an_entry_needs():
    for probe in map(experiment, experiments()):
        papers = probe_references(probe.references)
        tests = [paper for paper in papers if paper.role == "test"]
        assert len(tests) == 1 or (tests and all(paper.dataset for paper in tests)), probe.name
        for paper in papers:
            fields = dict(re.findall(r"(?m)^  (\w+) = \{(.*)\},$", paper.bibtex))
            assert all(" " in author for author in fields["author"].split(" and ")), paper.key
            bare = re.sub(r"\\.\{(\w)\}", r"\1", fields["author"]).split(" and ")
            last = [author.split()[-1] for author in bare]
            told = f"{last[0]} et al." if len(last) > 2 else " and ".join(last)
            label = unicodedata.normalize("NFKD", paper.label).encode("ascii", "ignore").decode()
            assert label == f"{told}, {fields['year']}", paper.key
            assert paper.bibtex.isascii(), paper.key
            assert fields["url"].startswith("https://"), paper.key
            if paper.bibtex.startswith(f"@misc{{{paper.key},"):  # a preprint
                assert fields["url"] == f"https://arxiv.org/abs/{fields['eprint']}", paper.key
            else:
                assert re.fullmatch(r"\d+--\d+", fields["pages"]), paper.key
                kind = paper.bibtex.removeprefix("@").partition(f"{{{paper.key},")[0]
                assert {"inproceedings": "booktitle", "article": "journal"}[kind] in fields, paper.key
    assert model_references("no such family") == ()


def test_the_program_is_cited_as_its_own_file_says():
    entry = tool_reference().bibtex
    for field in ("title = {negengine", "author = {{The negengine developers}}", "note = {Software, version 0.1.0}"):
        assert field in entry
    assert re.search(r"year = \{20\d\d\},", entry)
