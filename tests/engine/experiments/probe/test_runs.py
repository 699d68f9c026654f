"""`ng.probe`: a table of sentences against the model's own logits, and everything that a run can do."""

import json

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.choices import output_formats
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.probe.probe import OwnSentences, ProbeRun
from negengine.engine.inference.free_text import log_softmax
from negengine.engine.inference.model import MaskedLM
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.comparison.groups import by_group
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce
from pages import drawn_figures

ROWS = [
    ("A robin is a [MASK].", "bird", "fish", "affirmative", 1, 0.5),
    ("A robin is not a [MASK].", "bird", "fish", "negated", 1, None),
    ("A trout is a [MASK].", "fish", "bird", "affirmative", 2, 2.0),
    ("A trout is not a [MASK].", "fish", "bird", "negated", 2, 1.0),
    ("Fish or meat? I like [MASK].", "Fish", "meat", "affirmative", 3, 7.0),
    ("A robin is a [MASK].", "dog", "bird", "affirmative", 4, 7.5),
]
FRAME = pl.DataFrame(ROWS, schema=["sentence", "target", "other", "group", "item", "frequency"], orient="row")


@pytest.fixture(scope="module")
def model(mini):
    return ng.load(mini.folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "own.parquet"
    FRAME.write_parquet(path)
    return path


@pytest.fixture(scope="module")
def ask(model, tmp_path_factory):
    """Runs a probe into a new folder."""

    def run(data, **options):
        return ng.probe(model, data, output=tmp_path_factory.mktemp("runs") / "run", progress=False, **options)

    return run


@pytest.fixture(scope="module")
def run(ask, table):
    return ask(table)


@pytest.fixture(scope="module")
def both(ask, table):
    """With two targets for each row."""
    return ask(table, target=["target", "other"], top=3)


@pytest.fixture(scope="module")
def logits(mini, mini_tokenizer):
    """The logits at the mask of a text, float64 [V]."""
    reference = MaskedLM(mini)

    def at_mask(text, ids=None):
        ids = mini_tokenizer.encode([text])[0] if ids is None else ids
        (mask, *_) = np.flatnonzero(ids == mini_tokenizer.mask_id)
        return reference.logits(ids[None].astype(np.int32), np.array([mask], np.int32))[0]

    return at_mask


def test_every_item_is_what_the_logits_say(both, logits, mini_tokenizer):
    assert len(both.items) == 2 * len(ROWS)
    for row in both.items.iter_rows(named=True):
        found = logits(row["sentence"])
        token = mini_tokenizer.backend.token_to_id(row["expected"].lower())
        order = np.argsort(-found, kind="stable")
        assert row["logprob"] == pytest.approx(log_softmax(found)[token], abs=1e-4)
        assert row["rank"] == 1 + (found > found[token]).sum()
        assert row["is_top1"] == (order[0] == token)
        assert [row["top1"], row["top2"], row["top3"]] == [mini_tokenizer.token_text(i) for i in order[:3].tolist()]
        assert row["top3_logprob"] == pytest.approx(log_softmax(found)[order[2]], abs=1e-4)


def test_one_target_is_decided_on_the_device_with_the_same_results(run, both):
    columns = ["row", "expected", "rank", "is_top1", "top1", "repeats_word"]
    same = both.items.filter(target_column="target")
    assert run.items.select(columns).equals(same.select(columns))
    assert run.items["logprob"].to_list() == pytest.approx(same["logprob"].to_list(), abs=1e-5)


def test_the_columns_of_the_table_come_along(both):
    assert both.items.columns[: 1 + FRAME.width] == ["row", *FRAME.columns]
    assert both.items.filter(target_column="other").select(FRAME.columns).equals(FRAME)
    assert both.items["target_column"].to_list() == ["target", "other"] * len(ROWS)
    assert both.items["row"].to_list() == [row for row in range(1, 7) for _ in range(2)]


def test_a_target_that_repeats_a_word_of_its_sentence_is_marked(both):
    found = dict(both.items.filter(row=5).select("expected", "repeats_word").iter_rows())
    assert found == {"Fish": True, "meat": True}
    assert not both.items.filter(pl.col("row") < 5)["repeats_word"].any()


@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.jsonl"])
def test_every_kind_of_table_gives_the_same_figures(ask, run, tmp_path, name):
    writers = {
        "own.csv": lambda path: FRAME.write_csv(path, separator=";"),
        "own.tsv": lambda path: FRAME.write_csv(path, separator="\t"),
        "own.jsonl": FRAME.write_ndjson,
    }
    writers[name](tmp_path / name)
    found = ask(tmp_path / name)
    assert found.summary.equals(run.summary)


def test_a_frame_and_a_dictionary_give_the_same_items(ask, run):
    assert ask(FRAME).items.equals(run.items)
    assert ask(FRAME.to_dict(as_series=False)).items.equals(run.items)


def test_targets_of_several_tokens_are_filled_from_left_to_right(ask, logits, mini_tokenizer):
    found = ask({"sentence": ["A robin is a [MASK]."], "target": ["woodpecker"]}).items.row(0, named=True)
    word = mini_tokenizer.encode(["A robin is a woodpecker."])[0]
    masked = mini_tokenizer.encode(["A robin is a [MASK]."])[0]
    (at,) = np.flatnonzero(masked == mini_tokenizer.mask_id)
    tokens = word[at : at + 3]
    total = 0.0
    for i in range(3):
        ids = np.concatenate([masked[:at], tokens[:i], [mini_tokenizer.mask_id] * (3 - i), masked[at + 1 :]])
        total += log_softmax(logits("", ids))[tokens[i]]
    assert found["target_tokens"] == 3
    assert found["logprob"] == pytest.approx(total, abs=1e-3)
    assert found["is_top1"] is False


@pytest.mark.parametrize("method", ["left-to-right", "all-masks", "whole-word"])
def test_targets_of_one_and_of_several_tokens_are_in_one_run(ask, run, method):
    data = FRAME.with_columns(other=pl.when(pl.col("item") == 1).then(pl.lit("woodpecker")).otherwise("other"))
    found = ask(data, target=["target", "other"], method=method)
    assert found.items["target_tokens"].to_list() == [1, 3, 1, 3] + [1] * 8
    assert found.items["logprob"].is_not_null().all()
    single = found.items.filter(target_column="target")["logprob"]
    if method != "whole-word":
        assert single.to_list() == pytest.approx(run.items["logprob"].to_list(), abs=1e-4)
    assert not ng.verify(found, sample=20).damage
    (text,) = cite(found).methods
    paper = "Pimentel and Meister, 2024" if method == "whole-word" else "Kauf and Ivanova, 2023"
    assert f"2 targets of several tokens were scored by the {method} method ({paper})" in text


def test_only_the_given_words_compete(ask, logits, mini_tokenizer, table, tmp_path):
    (tmp_path / "words.txt").write_text("bird\nfish\ndog\nmeat\ncat\nunspeakableness\n")
    found = ask(table, targets=str(tmp_path / "words.txt"), top=5)
    ids = sorted(mini_tokenizer.backend.token_to_id(word) for word in ("bird", "fish", "dog", "meat", "cat"))
    for row in found.items.iter_rows(named=True):
        own = logits(row["sentence"])[ids]
        place = ids.index(mini_tokenizer.backend.token_to_id(row["expected"].lower()))
        assert row["rank"] == 1 + (own > own[place]).sum()
        assert row["logprob"] == pytest.approx(log_softmax(own)[place], abs=1e-4)
        assert row["top1"] == mini_tokenizer.token_text(ids[int(own.argmax())])
    assert not ng.verify(found, sample=20).damage


BAD = {
    "sentence": ["A robin is a [MASK].", "no mask", "[MASK] [MASK]", "A [MASK].", "A [PAD] [MASK].", "b [MASK]."],
    "target": ["bird", "a", "b", " ", "c", "[SEP]"],
}
REASONS = [
    "sentence has no [MASK]; write [MASK] where the target belongs",
    "sentence has 2 [MASK]; one is needed",
    "target is empty; a text is needed",
    "contains the padding token, which the model ignores: remove it",
    "target '[SEP]': '[SEP]' holds the token [SEP]",
]


def test_bad_rows_are_skipped_and_listed(ask, run):
    found = ask(BAD, skip_bad=True)
    assert found.items["row"].to_list() == [1]
    assert found.skipped["row"].to_list() == [2, 3, 4, 5, 6]
    assert found.skipped["reason"].to_list() == REASONS
    assert json.loads(found.skipped["content"][0]) == {"sentence": "no mask", "target": "a"}
    assert found.remarks() == [f"5 of 6 rows were skipped; {found.folder / 'skipped.parquet'} has the reasons"]
    assert found.tables()[-1].frame["reason"].to_list() == REASONS
    assert not ng.verify(found, sample=5).damage
    assert run.skipped.is_empty()


@pytest.mark.parametrize("row", range(1, 6))
def test_the_first_bad_row_is_an_error_before_a_model_is_opened(model, tmp_path, monkeypatch, row):
    monkeypatch.setattr("onnxruntime.InferenceSession", None)
    data = {name: [values[0], values[row]] for name, values in BAD.items()}
    with pytest.raises(InputError) as caught:
        ng.probe(model, data, output=tmp_path / "run", progress=False)
    assert str(caught.value) == f"the frame, row 2: {REASONS[row - 1]}"
    assert not (tmp_path / "run" / "items.parquet").exists()


def test_a_sentence_that_is_too_long_is_named(model, mini, tmp_path):
    words = "dog " * (mini.max_length - 3)
    data = {"sentence": [f"{words} [MASK]", f"{words}[MASK]"], "target": ["woodpecker", "bird"]}
    with pytest.raises(InputError, match=r"^the frame, row 1: target 'woodpecker': \d+ tokens with the sentence, but"):
        ng.probe(model, data, output=tmp_path / "run", progress=False)
    with pytest.raises(InputError, match=r"^the frame, row 1: \d+ tokens, but mini takes at most"):
        ng.probe(model, {**data, "sentence": [f"dog {words} [MASK]"] * 2}, output=tmp_path / "run", progress=False)


def test_a_table_without_a_good_row_is_refused(model, tmp_path):
    data = {"sentence": ["b [MASK]."], "target": ["[SEP]"]}
    with pytest.raises(InputError, match=r"row 1: target '\[SEP\]'"):
        ng.probe(model, data, skip_bad=True, output=tmp_path / "run", progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sentence": "text"}, r"--sentence text: .*has no such column; it has 'sentence', 'target', 'other'"),
        ({"target": "targets"}, "--target targets: did you mean 'target'"),
        ({"target": ["other", "other"]}, "--target other: given twice"),
        ({"top": 101}, "--top 101: give a number from 1 to 100"),
        ({"targets": "nouns"}, "--targets nouns: not all, not words, and not a file"),
        ({"method": "sum"}, "--method sum: give left-to-right, all-masks, whole-word"),
        ({"method": "whole-word", "top": 2}, "--method whole-word ranks the tokens"),
    ],
)
def test_wrong_options_are_one_line(model, table, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        ng.probe(model, table, output=tmp_path / "run", progress=False, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["rank", "top1", "row"])
def test_a_column_with_the_name_of_a_result_is_refused(model, tmp_path, name):
    with pytest.raises(InputError, match=f"the column '{name}' has the name of a result column"):
        ng.probe(model, FRAME.with_columns(pl.lit(1).alias(name)), output=tmp_path / "run", progress=False)


def test_a_column_that_holds_no_groups_is_refused(model, tmp_path):
    n = 1_001
    data = {"sentence": ["a [MASK]"] * n, "target": ["dog"] * n, "group": list(range(n))}
    with pytest.raises(InputError, match=r"the column 'group' has more than 1,000 different values"):
        ng.probe(model, data, output=tmp_path / "run", progress=False)


def test_a_plan_counts_and_writes_nothing(model, table, mini_tokenizer, tmp_path):
    plan = OwnSentences(table, target=["target", "other"]).plan(model, {"output": tmp_path / "run"})
    assert plan.work["rows"] == 6
    assert plan.work["items (rows × targets)"] == 12
    assert plan.work["different sentences"] == 5
    assert plan.work["tokens that the model reads"] == sum(
        map(len, mini_tokenizer.encode(FRAME["sentence"].unique().to_list()))
    )
    assert plan.work["minutes"] > 0
    assert plan.document()["run"] == str(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert str(plan)


def test_a_plan_says_which_rows_would_be_skipped(model):
    plan = OwnSentences(BAD, skip_bad=True).plan(model, {})
    assert plan.work["rows that would be skipped"] == 5
    assert plan.skipped == dict.fromkeys(REASONS, 1)


def test_all_tables_are_written_in_every_format(run, both):
    for form in output_formats():
        assert run.render(form)
        assert both.render(form)
    assert [table.title for table in both.tables()] == [
        "Targets by group: mini",
        "Groups compared",
        "Targets compared",
    ]


def test_two_runs_are_compared_row_by_row(run, ask, table):
    frame = compare(run, ask(table)).frame
    assert set(frame["split"]) == {"all", "group=affirmative", "group=negated"}
    assert set(frame["metric"]) == {"is_top1", "logprob", "repeats_word"}
    assert frame["difference"].to_list() == [0] * len(frame)
    assert set(by_group(run, by="group").frame["group"]) == {"affirmative", "negated"}


def test_runs_with_other_targets_are_not_compared(run, ask, table):
    with pytest.raises(InputError, match="cannot be compared: targets"):
        compare(run, ask(table, target="other"))


def test_the_sentences_have_the_answers(both):
    rows = both.sentences()
    assert rows["sentence"][:2].to_list() == ["A robin is a [MASK].", "A robin is a [MASK]."]
    assert rows["condition"][:2].to_list() == ["target", "other"]
    assert rows["item"].to_list() == both.items["row"].to_list()
    assert rows["answer"].to_list() == both.items["top1"].to_list()
    assert rows["correct"].to_list() == both.items["is_top1"].to_list()
    assert rows["table_item"].to_list() == both.items["item"].to_list()


def test_a_report_shows_the_figures_of_the_summary(run):
    figures = drawn_figures(run)
    assert set(figures) == {"first-choice", "log-probability"}
    wanted = run.summary.filter((pl.col("metric") == "logprob") & pl.col("split").is_in(["all", "group=negated"]))
    shown = figures["log-probability"].plot.data.filter(pl.col("split").is_in(["all", "group=negated"]))
    assert shown["logprob"].to_list() == wanted["value"].to_list()


def test_the_methods_paragraph_has_its_numbers(run):
    citation = cite(run)
    (rate,) = run.summary.filter(split="all", metric="is_top1")["value"]
    assert f"target: {100 * rate:.1f} %" in citation.methods[0]
    assert "In 6 sentences of our own" in citation.methods[0]
    assert "several tokens" not in citation.methods[0]
    assert not [paper for paper in citation.references if paper.role == "test"]
    assert citation.facts["Data"].endswith("own.parquet")


def test_the_same_run_again_has_the_same_bytes(run, tmp_path):
    assert reproduce(run.folder, tmp_path / "again", progress=False).is_same


def test_a_run_from_a_frame_says_that_it_needs_the_frame(ask, tmp_path):
    with pytest.raises(InputError, match="was made from a DataFrame in memory"):
        reproduce(ask(FRAME).folder, tmp_path / "again", progress=False)


def test_a_finished_run_is_opened_by_its_folder(run):
    opened = ng.open(run.folder)
    assert isinstance(opened, ProbeRun)
    assert opened.document() == {"run": str(run.folder), "summary": run.summary.to_dicts()}
