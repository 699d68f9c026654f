"""`negengine report` and `negengine figures`: what they print, and what they refuse in one line."""

import json
import webbrowser

import pytest


def test_a_report_is_written_and_named(command, scored_run, tmp_path):
    done = command("report", scored_run, "-o", "report.html")
    assert done.status == 0
    assert done.out.startswith(f"report.html: report of {scored_run} (")
    assert len(done.out.splitlines()) == 1
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_json_has_the_file_and_its_size(command, scored_run, tmp_path):
    done = command("report", scored_run, "--json")
    assert json.loads(done.out) == {"report": "report.html", "bytes": (tmp_path / "report.html").stat().st_size}


def test_the_browser_is_asked_to_open_the_file(command, scored_run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    assert command("report", scored_run, "--open").status == 0
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_without_a_browser_the_file_is_written_all_the_same(command, scored_run, tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    done = command("report", scored_run, "--open")
    assert done.status == 2
    assert done.err == "negengine: report.html is written, but no browser was found; open the file yourself\n"
    assert (tmp_path / "report.html").exists()


def test_figures_are_written_and_named(command, scored_run, tmp_path):
    done = command("figures", scored_run, "-o", "figures")
    assert done.status == 0
    assert done.out.startswith("figures: 9 figures as PDF, SVG, PNG and CSV: drops, differences,")
    listed = json.loads(command("figures", scored_run, "-o", "figures", "--json").out)
    assert set(listed["files"]) == {path.name for path in (tmp_path / "figures").iterdir()} - {"figures.json"}


@pytest.mark.parametrize("name", ["report", "figures"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "is not a run folder"),
        (lambda folder: folder.mkdir(), "is not a run folder"),
        (lambda folder: folder.write_text("notes"), "is not a run folder"),
    ],
)
def test_what_is_not_a_run_is_refused_in_one_line(command, tmp_path, name, make, said):
    make(tmp_path / "run")
    done = command(name, "run", "-o", "out")
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_figures_say_how_they_get_into_a_paper(command, scored_run):
    done = command("figures", scored_run)
    assert done.err == "figures: next, in LaTeX: \\includegraphics{figures/drops.pdf}\n"
