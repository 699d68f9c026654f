"""What every experiment does with a run, on small data: the same tests for each of them.

The folders beside this file test what an experiment asks, and what it counts.
"""

from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.errors import InputError
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce
from negengine.engine.runs.part import PartFiles
from negengine.engine.runs.record import read_run
from negengine.engine.runs.stage import COLUMNS
from pages import documented, drawn_figures

from .conftest import ASKED, EVERY, REQUESTED

ALWAYS, REFERENCE = pl.lit(value=True), "{} decided again by the reference model"
FROM_ITEMS = "tables follow from items.parquet"


FOUND = (
    "columns found by their names: group (groups), item (minimal pairs); an empty name, such as --group '', leaves one "
    "out"
)
TOLD = {  # what its methods say; the remarks; the figures; the metrics that are compared
    "lama": (
        ["(Kassner and Schütze, 2020)", "ranked all tokens", "Precision at rank 1: TREx 0."],
        ["facts excluded: 1 (the answer is not one token of the model)", "excluded by group: 1-1 (1), P36 (1)"],
        {"correlation", "overlap", "precision"},
        {"spearman", "overlap@1", "precision@1", "precision@5", "precision@10"},
    ),
    "diagnostics": (
        ["the diagnostics of Ettinger, 2020"],
        ["CPRAG-102: words that are not one token of the model: 2 (qzxqzx, zyxxqz)"],
        {"sensitivity", "accuracy-1", "accuracy-5"},
        {"accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01"},
    ),
    "gh22": (
        ["Handschuh, 2022 with 3 pairs", "at ranks 1, 50. Variants: original.", "pattern, original, at rank 1"],
        None,
        {"drops-original", "rates-original"},
        {"repetition_rate"},
    ),
    "probe": (
        ["In 5 sentences of our own we compared", "; affirmative − negated of other, share", ", p = "],
        [FOUND],
        {"first-choice", "log-probability"},
        {"is_top1", "logprob", "repeats_word"},
    ),
    "nli": (
        ["of Hossain et al., 2020 with the labels not_entailment, entailment", "on the original dev sets: RTE"],
        [],
        {"accuracy"},
        {"accuracy"},
    ),
    "likelihood": (["(Salazar et al., 2020)"], [], {"likelihood"}, {"accuracy", "accuracy_per_token", "ties"}),
    "choice": (
        ["We compared the candidates of 3 items by their pseudo-log-likelihoods", "(Salazar et al., 2020)"],
        None,
        {"choice"},
        {"accuracy", "accuracy_per_token", "accuracy_per_byte", "accuracy_pmi", "ties"},
    ),
    "cues": (["sentences that contain a negation cue (as in Hossain et al., 2020) with the"], None, {"shares"}, None),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_run_is_opened_told_drawn_reported_compared_and_made_again(name, made, tmp_path):
    run, (said, remarks, figures, metrics) = made(name), TOLD[name]
    assert type(ng.open(run.folder)) is type(run)
    (text,) = cite(run).methods
    assert not [words for words in said if words not in text], text
    assert remarks is None or run.remarks() == remarks
    assert set(drawn_figures(run)) == figures
    assert ng.report(run, tmp_path / "report.html").stat().st_size > 10_000
    assert reproduce(run.folder, tmp_path / "again", progress=False).is_same
    if metrics is None:
        with pytest.raises(InputError, match="a run of cues cannot be compared"):
            compare(run, tmp_path / "again")
        return
    frame = compare(run, ng.open(tmp_path / "again")).frame
    assert set(frame["metric"]) == metrics
    assert frame["difference"].to_list() == [0] * len(frame)


@pytest.mark.parametrize("name", [*EVERY, "select", "score"])
def test_the_columns_of_rows_are_part_of_what_a_run_is(name, made, scored_run):
    """So that a version whose rows have others is refused before it works; they are those of the parts."""
    folder = scored_run if name in {"select", "score"} else made(name).folder
    for stage, record in read_run(folder).stages.items():
        if COLUMNS not in record.identity:  # known once a part is decided; then other ones are refused
            assert stage not in {"nli", "cues", "select", "score", "acts", "gh22"}
            continue
        schema = PartFiles(folder, stage, 0).frame().schema
        assert record.identity[COLUMNS] == {column: str(kind) for column, kind in schema.items()}


@pytest.mark.parametrize("name", [name for name in EVERY if name not in {"probe", "likelihood", "choice"}])
def test_the_files_of_a_run_and_their_columns_are_documented(name, made):
    """Those of a table of one's own: tests/docs/test_files.py."""
    run = made(name)
    shared = documented("items.parquet of requests") if name in REQUESTED else []
    assert {*shared, *documented(f"items.parquet of {name}")} == set(run.frame("items.parquet").columns)
    assert documented("summary.parquet") == run.frame("summary.parquet").columns
    assert name != "gh22" or {*documented("acts.parquet")} == {*run.acts.columns}
    shared = {"item", "condition", "sentence", "expected", "answer", "failed", "rank", "logprob"}
    assert name == "nli" or shared <= set(run.sentences().columns)


AGAIN = {  # what is decided again by the reference model, and how many there are of it
    "lama": {"items": lambda run: len(run.sentences())},
    "diagnostics": {"items": lambda run: len(run.sentences())},
    "gh22": {"items": lambda run: len(run.items), "tokens at ranks": lambda run: len(run.acts)},
    "probe": {"items": lambda run: len(run.items)},
    "nli": {"pairs": lambda run: len(run.items)},
    "likelihood": {"sentences": lambda run: len(run.items)},
    "choice": {"sentences": lambda run: len(run.items)},
}


@pytest.mark.parametrize("name", AGAIN)
def test_every_item_is_decided_again_by_the_reference_model(name, made):
    found = ng.verify(made(name), sample=10_000)
    assert not found.damage
    again = {check.what.partition(" decided")[0]: check.n for check in found.checks if "again by" in check.what}
    assert again == {kind: counted(made(name)) for kind, counted in AGAIN[name].items()}


LIES = [  # a column and its false value, in the first row where the right one allows it; the check that finds it
    ("lama", "precision@5", lambda own: not own, "precision@5", FROM_ITEMS),
    ("lama", "overlap@1", lambda own: not own, "overlap@1", FROM_ITEMS),
    ("lama", "spearman", 1.5, ALWAYS, FROM_ITEMS),  # it is a metric itself
    ("lama", "logprob", lambda own: own - 1, "logprob", REFERENCE.format("items")),
    ("diagnostics", "sensitivity", lambda own: not own, "sensitivity", FROM_ITEMS),
    ("gh22", "logprob", 0.5, ALWAYS, REFERENCE.format("items")),
    ("lama", "spearman", lambda own: own - 0.01, ALWAYS, REFERENCE.format("items")),
    ("diagnostics", "top1", "nothing", ALWAYS, REFERENCE.format("items")),
    ("gh22", "first", True, ~pl.col("first"), FROM_ITEMS),
    ("gh22", "rank", lambda own: own - 5, pl.col("rank") > 10, REFERENCE.format("items")),
    ("nli", "accuracy", lambda own: not own, ALWAYS, "tables follow from items.parquet"),
    (
        "nli",
        "label",
        lambda own: own.removeprefix("not_"),
        pl.col("label") != "entailment",
        "tables follow from items.parquet",
    ),
    ("nli", "probability", lambda own: (1 + own) / 2, ALWAYS, REFERENCE.format("pairs")),
    ("probe", "is_top1", True, pl.col("rank") > 1, FROM_ITEMS),
    ("probe", "repeats_word", lambda own: not own, ALWAYS, FROM_ITEMS),
    ("probe", "logprob", lambda own: own - 1, ALWAYS, REFERENCE.format("items")),
    ("probe", "first", True, pl.col("rank") > 1, FROM_ITEMS),
    ("probe", "top1", "house", ALWAYS, REFERENCE.format("items")),
    ("likelihood", "logprob", lambda own: own - 1, ALWAYS, REFERENCE.format("sentences")),
    ("choice", "logprob", lambda own: own - 1, ALWAYS, REFERENCE.format("sentences")),
    ("choice", "accuracy", lambda own: not own, "accuracy", FROM_ITEMS),
    ("cues", "kinds", ["affix"], pl.col("kinds").list.first() == "particle", FROM_ITEMS),
]


@pytest.mark.parametrize(("name", "column", "false", "where", "said"), LIES)
def test_a_lie_about_an_item_is_found(name, column, false, where, said, made, tmp_path):
    """By the tables that follow from the items; one that could be true, by the model."""
    folder = copy_without_parts(made(name).folder, tmp_path / "run")
    items = pl.read_parquet(folder / "items.parquet")
    row = int(items.select(pl.col(where).is_not_null() if isinstance(where, str) else where).to_series().arg_max())
    value = false(items[column][row]) if callable(false) else false
    lie(folder, made(name).stage, "items.parquet", changed(items, row, **{column: value}))
    by_tables = damage(ng.verify(folder, sample=0))
    assert any(what.startswith(said) for what in by_tables) == ("again by" not in said), by_tables
    if "again by" in said:
        assert said in damage(ng.verify(folder, sample=10_000))


@pytest.mark.parametrize("name", EVERY)
def test_a_lie_about_a_value_of_the_summary_is_found(name, made, tmp_path):
    folder = copy_without_parts(made(name).folder, tmp_path / "run")
    summary = pl.read_parquet(folder / "summary.parquet")
    lie(folder, made(name).stage, "summary.parquet", changed(summary, 0, value=summary["value"][0] / 2 + 0.1))
    found = damage(ng.verify(folder, sample=0))
    assert any("summary.parquet" in what or what == "tables follow from items.parquet" for what in found)


def test_each_vocabulary_of_lama_is_ranked_again_and_is_another_run(call, made, tmp_path):
    (tmp_path / "words.txt").write_text("paris\nrome\nlondon\nwater\nfire\n")
    for vocabulary in ("words", str(tmp_path / "words.txt")):
        found = call("lama", tmp_path / f"run of {Path(vocabulary).name}", vocabulary=vocabulary)
        with pytest.raises(InputError, match="cannot be compared: vocabulary all, there"):
            compare(made("lama"), found)
        verified = ng.verify(found, sample=100)
        assert not verified.damage
        assert REFERENCE.format("items") in [check.what for check in verified.checks if check.n]


@pytest.mark.parametrize("name", ASKED)
def test_all_sentences_are_those_that_the_model_judged(name, call, mini_tokenizer, seen_ids, tmp_path):
    run = call(name, tmp_path / "run")
    texts = run.sentences()["sentence"].to_list()
    if name == "gh22":  # the model chooses the ACTs itself
        choosing = pl.format("{} is {} and {} likes to [MASK]", "name", "profession", "pronoun")
        texts += run.acts.select(choosing).to_series().to_list()
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(texts)} == seen_ids


def test_what_fails_is_what_the_experiment_says(made):
    rows = made("lama").sentences()
    queries, negated = rows.filter(pl.col("condition") != "negated"), rows.filter(condition="negated")
    assert sorted(queries["expected"]) == sorted(["paris", "rome", "london"] * 2)
    assert queries["failed"].to_list() == (~queries["precision@1"]).to_list()
    overlap = dict(queries.filter(condition="original").select("item", "overlap@1").iter_rows())
    assert negated["failed"].to_list() == [overlap[item] for item in negated["item"]]
    assert negated.select("expected", "correct", "rank", "logprob").null_count().row(0) == (2,) * 4
    rows = made("diagnostics").sentences()
    negative = rows.filter(pl.col("item").str.ends_with("negative"), dataset="NEG-136-SIMP", role="good").row(
        0, named=True
    )
    assert (negative["sentence"], negative["expected"]) == ("A hammer is not an [MASK].", "insect")
    assert (negative["correct"], negative["failed"]) == (None, not negative["sensitivity"])
    failed = rows.filter(pl.col("accuracy@1").is_not_null())
    assert failed["failed"].to_list() == (~failed["accuracy@1"]).to_list()
    rows, negative = made("gh22").sentences(), pl.col("pattern").str.ends_with("N")
    assert rows.select((pl.col("failed") == (pl.col("repeated") == negative)).all()).item()


WRONG = {
    "lama": [
        ({"corpus": "Wikipedia"}, "corpus='Wikipedia': give GoogleRE, TREx"),
        ({"data": "nowhere"}, "nowhere: "),
        ({"precision": "mixed"}, "precision='mixed': {} reports "),
    ],
    "diagnostics": [({"draws": 0}, "draws=0: give a number from 1")],
    "gh22": [
        ({"ranks": [0], "model": "none"}, "ranks=0: give a number from 1"),
        ({"ranks": [10**6]}, r"ranks.*: give a number from 1 to \d+"),
    ],
    "nli": [
        ({"labels": "maybe"}, r"labels='maybe': 1 labels, but .* has 2"),
        ({"max_length": 41}, r"max_length=41: .* takes 5 to 40 tokens a pair"),
    ],
    "cues": [({"precision": "mixed"}, "precision='mixed'"), ({"files": ["a.txt"] * 2}, "a.txt: this text is given")],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_one_line_and_write_nothing(name, call, tmp_path):
    for options, message in WRONG[name]:
        with pytest.raises(InputError, match=message.format(name)):
            call(name, tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()


def test_a_folder_holds_one_experiment_and_another_one_changes_nothing_in_it(made, call):
    """Their files have the same names: each repair of one would destroy the other."""
    for name, other in zip(EVERY, (*EVERY[1:], EVERY[0]), strict=True):
        folder = made(name).folder
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        holds = "acts" if name == "gh22" else name
        with pytest.raises(
            InputError, match=rf"holds a run of {holds}, .* one experiment; use replace=True, which keeps"
        ):
            call(other, folder)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
