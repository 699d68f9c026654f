"""Commands on results: what they print and write, and how they end; tests/engine/results has the numbers."""

import io
import json
import webbrowser

import negengine as ng
import polars as pl


def test_a_report_is_written_named_and_opened_and_figures_are_listed(command, scored_run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    done = command("report", scored_run, "--open")
    size = (tmp_path / "report.html").stat().st_size
    said = f"report.html: report of {scored_run} ({size / 1e6:.1f} MB); open it in a browser\n"
    assert (done.status, done.out, opened) == (0, said, [(tmp_path / "report.html").as_uri()])
    assert json.loads(command("report", scored_run, "--json").out) == {"report": "report.html", "bytes": size}
    done = command("figures", scored_run, "-o", "figures")
    assert (done.status, done.err) == (0, "figures: next, in LaTeX: \\includegraphics{figures/drops.pdf}\n")
    assert done.out == "figures: 3 figures as PDF, SVG, PNG and CSV: drops, replacements, ranks\n"
    listed = json.loads(command("figures", scored_run, "-o", "figures", "--json").out)
    assert set(listed["files"]) == {path.name for path in (tmp_path / "figures").iterdir()} - {"figures.json"}


def test_a_verification_is_a_table_or_one_document(command, scored_run):
    done = command("verify", scored_run, "--sample", "3", "--format", "csv")
    assert (done.status, done.out.count("3 agree, 0 near-ties, 0 wrong")) == (0, 3)
    assert f"{scored_run}: no damage found" in done.err
    found = json.loads(command("verify", scored_run, "--sample", "0", "--json").out)
    assert found["damaged"] is False
    assert {"of", "what", "n", "outcome", "detail", "repair"} <= set(found["checks"][0])
    assert command("verify", "nothing").said.startswith("negengine: no exported model nothing")


def test_a_run_that_was_moved_verifies_and_its_hints_name_where_it_is(mini, small_lexicon, command, tmp_path):
    assert command("select", mini.folder, "--lexicon", small_lexicon, "--pairs", "1", "-o", "old").status == 0
    assert command("score", "old").status == 0
    (tmp_path / "old").rename(tmp_path / "new")
    assert command("verify", "new", "--sample", "2").status == 0
    (tmp_path / "new" / "rates.parquet").unlink()
    hint = "negengine score new --output new"
    assert command("verify", "new", "--sample", "0").said.endswith(f"rates.parquet missing; to repair it, run: {hint}")
    assert command("show", "new").said.endswith(f"; to resume it: {hint}")
    assert command(*hint.split()[1:]).status == 0
    assert command("verify", "new", "--sample", "2").status == 0


def test_a_citation_is_text_bibtex_alone_or_one_document(scored_run, selected_run, command):
    done, alone = command("cite", scored_run), command("cite", scored_run, "--format", "bibtex")
    assert f"`negengine cite {scored_run} --format bibtex > references.bib` writes the BibTeX alone\n" in done.err
    assert (alone.out.partition("\n")[0], alone.out[-2:], alone.err) == ("@misc{negengine,", "}\n", "")
    assert done.out.startswith("Methods\n\nWe tested mini")
    assert done.out.endswith(alone.out)
    found = json.loads(command("cite", scored_run, selected_run, "--format", "json").out)
    assert (set(found), len(found["methods"])) == ({"methods", "facts", "bibtex"}, 2)


def test_items_are_written_beside_the_tables(scored_run, command, tmp_path):
    done = command("compare", scored_run, "--items", "items.csv")
    assert done.status == 0, done.err
    n = len(pl.read_csv(tmp_path / "items.csv"))
    assert f"items.csv: {n:,} rows, one for each item and model" in done.err


def test_sentences_are_shown_drawn_by_a_seed_written_or_refused(command, scored_run, tmp_path):
    sentences = ng.open(scored_run).sentences()
    done = command("show", scored_run, "--where", "condition=CpTn")
    assert done.status == 0
    assert f"20 of {len(sentences.filter(condition='CpTn'))} sentences" in done.out
    table = pl.read_csv(io.StringIO(command("show", scored_run, "--format", "csv").out))
    assert table.select("item", "condition", "sentence").equals(sentences.select("item", "condition", "sentence"))
    document = json.loads(command("show", scored_run, "--json").out)
    assert [row["sentence"] for row in document["sentences"]] == sentences["sentence"].to_list()
    sample = ("show", scored_run, "--sample", 5, "--format", "csv", "--seed")
    assert len(command(*sample, 1).out.splitlines()) == 6
    assert command(*sample, 1).out == command(*sample, 1).out != command(*sample, 2).out
    done = command("show", scored_run, "-o", "all.parquet")
    assert done.out == f"all.parquet: {len(sentences)} sentences of {scored_run}\n"
    assert pl.read_parquet(tmp_path / "all.parquet").equals(sentences)
    for words, said in {"-o x.txt": "the name must end in", "--where condition=cptn": "did you mean 'CpTn'"}.items():
        done = command("show", scored_run, *words.split())
        assert (done.status, done.out, done.err.count("\n"), said in done.err) == (2, "", 1, True)
