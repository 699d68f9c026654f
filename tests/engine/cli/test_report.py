"""`negengine report` and `negengine figures`: what they print, and what they refuse in one line."""

import json
import webbrowser


def test_a_report_is_written_and_named(command, scored_run, tmp_path):
    done = command("report", scored_run, "-o", "report.html")
    assert done.status == 0
    assert done.out.startswith(f"report.html: report of {scored_run} (")
    assert len(done.out.splitlines()) == 1
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    found = json.loads(command("report", scored_run, "--json").out)
    assert found == {"report": "report.html", "bytes": (tmp_path / "report.html").stat().st_size}


def test_the_browser_is_asked_to_open_the_file(command, scored_run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    assert command("report", scored_run, "--open").status == 0
    assert opened == [(tmp_path / "report.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    done = command("report", scored_run, "--open")
    assert done.status == 2
    assert done.err == "negengine: report.html is written, but no browser was found; open the file yourself\n"


def test_figures_are_written_and_named(command, scored_run, tmp_path):
    done = command("figures", scored_run, "-o", "figures")
    assert done.status == 0
    assert done.err == "figures: next, in LaTeX: \\includegraphics{figures/drops.pdf}\n"
    assert done.out.startswith("figures: 9 figures as PDF, SVG, PNG and CSV: drops, differences,")
    listed = json.loads(command("figures", scored_run, "-o", "figures", "--json").out)
    assert set(listed["files"]) == {path.name for path in (tmp_path / "figures").iterdir()} - {"figures.json"}
