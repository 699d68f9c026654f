import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import negengine as ng
import polars as pl
import pytest
from fake_exports import write_checkpoint
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from lies import reseal
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments import experiment
from negengine.engine.experiments.negation import negation
from negengine.engine.inference.exported import checkpoint_revision
from negengine.engine.results.suite.suite_report import drawn_curves
from negengine.engine.results.suite.suite_run import plan_suite
from negengine.engine.runs.loop import run_stage
from negengine.export.source import BUNDLED
from pages import read

CHECKPOINTS = '["step0", "step1000", "step20k"]'
SUITE = """\
name = "over training"
[run]
device = "cpu"
precision = "fp32"
[[model]]
model = "lab/tiny"
revisions = ["step0", "step1000", "step20k"]
[[probe]]
probe = "score"
lexicon = "lexicon"
pairs = 6
"""


@pytest.fixture
def place(tmp_path, monkeypatch, once, mini, small_lexicon):
    """The current folder, with word lists, suite.toml, and what an export of three revisions of the hub leaves."""

    def write(folder):
        for name, noise in {"step0": 0.6, "step1000": 0.3, "step20k": 0.1}.items():
            write_checkpoint(mini.folder, folder / "lab" / f"tiny@{name}", f"lab/tiny@{name}", noise)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    close_session()  # they know whether the library is offline
    (tmp_path / "models").symlink_to(once("checkpoints", write))
    (tmp_path / "lexicon").symlink_to(small_lexicon)
    (tmp_path / "suite.toml").write_text(SUITE)
    yield tmp_path
    monkeypatch.undo()
    close_session()


def states(found):
    return {member.model.label.partition("@")[2]: str(found.states[member.number]) for member in found.members}


def at_each_stage(monkeypatch, see):
    """Have a function see each stage, and its folder, before a member runs it."""

    def watched(stage, folder, execution, **more):
        see(stage, folder)
        return run_stage(stage, folder, execution, **more)

    for module in (experiment, negation):
        monkeypatch.setattr(module, "run_stage", watched)


@pytest.fixture
def no_report(monkeypatch):
    """As without the extra `report`, whose drawing takes long."""
    refuse = Mock(side_effect=InputError("reports need altair"))
    monkeypatch.setattr("negengine.engine.results.suite.suite_report.write_report", refuse)


def test_three_checkpoints_make_a_table_a_report_and_a_curve(place):
    found = ng.suite("suite.toml", progress=False)
    assert (found.is_finished, found.failures) == (True, {})
    frame = pl.read_csv("runs/suite/results.csv")
    assert {"probe", "series", "revision", "low", "high", "drop"} <= set(frame.columns)
    scored = [model for (_, model), run in found.runs.items() if run.stage == "score"]
    assert frame["model"].unique(maintain_order=True).to_list() == scored
    [rate] = ng.open("runs/suite/score/lab--tiny@step20k").rates.filter(pattern="CpTn")["repetition_rate"]
    told = frame.filter(model="lab/tiny@step20k", split="CpTn").select("step", "value").rows()
    assert told == [(20_000, pytest.approx(rate / 100))]
    page = (place / "runs/suite/report.html").read_text("utf-8")
    assert all(text in page for text in ("score over training", "<svg", "lab/tiny@step1000"))
    table, *_ = read(page).all("table")
    chapters = {own.attributes["id"]: own.words for own in read(page).all("h2")}
    links = {link.words: chapters[link.attributes["href"][1:]] for link in table.all("a")}
    ready = {f"score of {model}": f"score: {model}" for model in scored}
    assert links == {**ready, "score of lab/tiny@step0": "Runs without a result"}
    assert list(chapters.values())[-1] == "Runs without a result"
    assert {f"curve-score.{end}" for end in ("pdf", "svg", "png", "csv")} <= {path.name for path in found.figures}
    curve = pl.read_csv("runs/suite/figures/curve-score.csv")
    assert set(curve["step"]) == set(frame["step"])
    rates = pl.concat(found.runs["score", model].rates for model in scored).filter(pl.col("pattern") != "CpTp")
    few = rates.filter(pl.min_horizontal("pairs", "verbs") < 5)  # have no interval
    assert (len(curve), curve["drop_low"].null_count()) == (len(rates), len(few))
    assert str(found).startswith("score: Models: drop of the repetition rate")


def test_shards_are_whole_members_and_what_is_finished_is_not_run_again(place, monkeypatch, no_report):
    opened = []
    at_each_stage(monkeypatch, lambda _, folder: opened.append(folder))
    for index in (1, 2):
        part = ng.suite("suite.toml", shard=f"{index}/2", progress=False)
        assert (part.is_finished, part.report) == (True, None)
        assert (place / f"runs/suite/suite-{index}-of-2.json").exists()
    assert len(set(opened)) == 3
    opened.clear()
    found = ng.suite("suite.toml", progress=False)
    assert (opened, found.is_finished, found.report) == ([], True, None)
    assert "there is no report: reports need altair" in found.remarks()


def test_exports_that_the_suite_has_made_go_when_their_runs_are_done_and_others_stay(place, monkeypatch, no_report):
    ready, made, there = (place / "models").resolve(), [], {}

    def export(reference, output, **_):
        made.append(output.name)
        return Path(shutil.copytree(ready / reference, output))

    def see(_, folder):
        there[folder.name] = sorted(path.name for path in Path("runs/suite/exports").glob("*"))

    monkeypatch.setattr("negengine.engine.library.model.export", export)
    monkeypatch.setenv("NEGENGINE_MODELS", str(place / "own"))
    kept = Path(shutil.copytree(ready / "lab/tiny@step0", place / "own/lab/tiny@step0"))
    at_each_stage(monkeypatch, see)
    (place / "suite.toml").write_text(f"keep_exports = false\n{SUITE}")
    found = ng.suite("suite.toml", progress=False)
    names = ["lab--tiny@step1000", "lab--tiny@step20k"]
    assert (found.is_finished, made) == (True, names)
    assert there == {"lab--tiny@step0": [], **{name: [name] for name in names}}
    assert kept.exists()
    assert not Path("runs/suite/exports").exists()
    assert ng.suite("suite.toml", progress=False).frame.equals(found.frame)
    assert made == names


def test_a_step_that_was_trained_on_is_exported_and_run_again(place, monkeypatch, no_report, mini):
    step, made = place / "run" / "step5", []
    shutil.copytree(BUNDLED, step)

    def export(reference, output, **_):
        made.append(reference)
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(mini.folder, output)
        of = {"origin": str(Path(reference).resolve())}
        reseal(output / "export.json", lambda info: info.update(of, made_from={"revision": checkpoint_revision(step)}))
        return output

    monkeypatch.setattr("negengine.engine.library.model.export", export)
    monkeypatch.setenv("NEGENGINE_MODELS", str(place / "own"))
    (place / "suite.toml").write_text(SUITE.replace("revisions", "checkpoints").replace(CHECKPOINTS, '["run/step5"]'))
    for _ in range(2):
        assert ng.suite("suite.toml", progress=False).is_finished
        assert made == ["run/step5"]
    with (step / "config.json").open("a") as config:
        config.write("\n")
    assert [*states(plan_suite("suite.toml")).values()] == ["begun"]
    ng.suite("suite.toml", progress=False)
    assert made == ["run/step5"] * 2


def test_a_member_that_fails_or_has_a_bug_does_not_stop_the_others_and_is_named(place, monkeypatch, no_report):
    def fail(_, folder):
        if "step1000" in folder.name:
            raise ZeroDivisionError("a bug")

    at_each_stage(monkeypatch, fail)
    (place / "suite.toml").write_text((place / "suite.toml").read_text().replace('"step0", ', '"step99", '))
    found = ng.suite("suite.toml", output="runs/own", progress=False)
    ended = {"step99": "failed", "step1000": "failed", "step20k": "finished"}
    assert (found.is_finished, states(found)) == (False, ended)
    missing, bug = found.failures.values()
    assert missing.startswith("lab/tiny (revision step99) is neither a folder here nor in the cache")
    assert bug == "ZeroDivisionError: a bug (a bug: see -v)"
    assert f"score of lab/tiny@step99: {missing}" in found.remarks()
    assert found.closing().endswith("to run the others, `negengine suite suite.toml --output runs/own`")
    record = json.loads((place / "runs/own/suite.json").read_text())
    assert [member["state"] for member in record["members"]] == list(ended.values())


@pytest.mark.everything
def test_an_interrupted_suite_goes_on_and_other_settings_fail_in_one_line(place, monkeypatch, no_report):
    def stop(_, folder):
        if "step1000" in folder.name:
            folder.mkdir(parents=True)
            raise KeyboardInterrupt

    at_each_stage(monkeypatch, stop)
    with pytest.raises(KeyboardInterrupt):
        ng.suite("suite.toml", progress=False)
    at_each_stage(monkeypatch, lambda *_: None)
    plan = states(plan_suite("suite.toml"))
    assert plan["step0"] in {"finished", "empty"}
    assert plan["step20k"] == "new"
    first = place / "runs/suite/score/lab--tiny@step0"
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*.parquet")}
    found = ng.suite("suite.toml", progress=False)
    assert found.is_finished
    whole = ng.suite("suite.toml", output="whole", progress=False)
    assert found.frame.drop("folder").equals(whole.frame.drop("folder"))
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*.parquet")} == before
    with (place / "suite.toml").open("a") as file:
        file.write("max_verbs = 3\n")
    assert set(states(plan_suite("suite.toml")).values()) == {"begun"}
    failures = ng.suite("suite.toml", progress=False).failures.values()
    assert ["select was made with max verbs 20, now 3: use replace=True" in why for why in failures] == [True] * 3
    assert ng.suite("suite.toml", replace=True, progress=False).is_finished
    kept = first.with_name(f"{first.name}.1")
    assert {first / path.relative_to(kept): path.stat().st_mtime_ns for path in kept.rglob("*.parquet")} == before


def test_a_plan_runs_nothing_and_runs_without_items_to_compare_are_reported_with_their_tables(place):
    plan = plan_suite("suite.toml")
    assert set(states(plan).values()) == {"new"}
    assert plan.closing().endswith("written to runs/suite")
    assert plan.document()["members"][1]["step"] == 1000
    with pytest.raises(InputError, match="nowhere"):
        ng.suite("suite.toml", device="nowhere", progress=False)
    assert not (place / "runs").exists()
    (place / "suite.toml").write_text((place / "suite.toml").read_text().replace('"score"', '"select"'))
    found = ng.suite("suite.toml", progress=False)
    assert (found.is_finished, found.notes) == (True, ())
    with pytest.raises(InputError, match=r"it has no run\.json; give a run inside, such as runs/suite/select/"):
        ng.open("runs/suite")
    assert "Selected triplets" in found.report.read_text("utf-8")
    assert str(found).startswith("select: Selection of triplets: lab/tiny@step0")


def test_each_group_of_items_has_its_row_and_its_curve(place):
    """The pooled value of affirmative and negated sentences means nothing."""
    facts = [("robin", "bird"), ("salmon", "fish"), ("oak", "tree"), ("rose", "flower")]
    forms = {"affirmative": "A {} is a [MASK].", "negated": "A {} is not a [MASK]."}
    rows = [(form.format(thing), kind, name) for name, form in forms.items() for thing, kind in facts]
    pl.DataFrame(rows, schema=["sentence", "target", "polarity"], orient="row").write_csv("facts.csv")
    asked = 'probe = "probe"\ndata = "facts.csv"\ngroup = ["polarity"]\n'
    models = SUITE.partition("[[probe]]")[0].replace('"step0", ', "")
    (place / "suite.toml").write_text(f"{models}[[probe]]\n{asked}")
    found = ng.suite("suite.toml", progress=False)
    assert (found.is_finished, found.failures) == (True, {})
    frame = pl.read_csv("runs/suite/results.csv").filter(metric="logprob")
    for (_, model), run in found.runs.items():
        own = run.items.group_by("polarity").agg(pl.col("logprob").cast(pl.Float64).mean())
        for polarity, mean in own.iter_rows():
            [row] = frame.filter(pl.col("model") == model, pl.col("split").str.contains(polarity)).rows(named=True)
            assert row["value"] == pytest.approx(mean)
            assert row["n"] == len(facts)
    curve = pl.read_csv("runs/suite/figures/curve-probe-values.csv")
    assert len(curve.select("split").unique()) == 3  # both, and all of them
    drawn = {path.stem: path.read_text("utf-8") for path in found.figures if path.suffix == ".svg"}
    assert "probe-differences-lab-tiny-step1000-minus-lab-tiny-step20k" in drawn
    assert {">20k<", ">rate, %<", ">negated first choice (n = 4)<"} <= {*re.findall(r">[^<>]+<", drawn["curve-probe"])}
    # Of many groups and metrics, those of the first metric are drawn, and a metric that is the same everywhere is not.
    groups = [(None, "all"), *(("field", f"f{n}") for n in range(3)), *(("set", f"s{n}") for n in range(9))]
    rows = [
        (step, column, group, metric, 0.0 if metric == "ties" else step + place)
        for step in (1, 2)
        for metric in ("ties", "accuracy", "per token")
        for place, (column, group) in enumerate(groups)
    ]
    points = pl.DataFrame(rows, schema=["step", "column", "split", "metric", "value"], orient="row")
    points = points.with_columns(category=pl.format("{} {}", "split", "metric"))
    shown, notes = drawn_curves(points)
    assert shown["category"].unique(maintain_order=True).to_list() == [f"{group} accuracy" for _, group in groups[:4]]
    assert notes == ("drawn: 4 of 39 groups; the table has all",)
    assert drawn_curves(points.filter(metric="ties", split="all"))[0]["category"].to_list() == ["all ties"] * 2
