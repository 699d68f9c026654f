"""`ng.probe`: a table of sentences against the model's own logits, and everything that a run can do."""

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import options_of
from negengine.engine.experiments.probe.probe import OwnSentences
from negengine.engine.inference.judge import log_softmax
from negengine.engine.inference.model import MaskedLM
from negengine.engine.results.report.chosen_sentences import chosen
from negengine.engine.results.report.citation import cite
from plain_calls import logits_at

ROWS = [
    ("A robin is a [MASK].", "bird", "fish", "affirmative", 1, 0.5),
    ("A robin is not a [MASK].", "bird", "fish", "negated", 1, None),
    ("A trout is a [MASK].", "fish", "bird", "affirmative", 2, 2.0),
    ("A trout is not a [MASK].", "fish", "bird", "negated", 2, 1.0),
    ("Fish or meat? I like [MASK].", "Fish", "meat", "affirmative", 3, 7.0),
    ("A robin is a [MASK].", "dog", "bird", "affirmative", 4, 7.5),
]
FRAME = pl.DataFrame(ROWS, schema=["sentence", "target", "other", "group", "item", "frequency"], orient="row")
BAD = {
    "sentence": ["A robin is a [MASK].", "no mask", "[MASK] [MASK]", "A [MASK].", "b [MASK]."],
    "target": ["bird", "a", "b", " ", "[SEP]"],
}
REASONS = [
    "sentence has no [MASK]; write [MASK] where the target belongs",
    "sentence has 2 [MASK]; one is needed",
    "target is empty; a text is needed",
    "'[SEP]' holds the token [SEP]",
]
LONG = "dog " * 509  # the model takes 512 tokens
WORDS = ["yes", "no", "Wanted", "UNWANTED ", "1", None]
DIRTY = """sentence,target,group,item,speaker
A robin is a [MASK].,bird,affirmative,1,a
A robin is not a [MASK].,bird, negated,1 ,a
A trout is a [MASK].,fish,affirmative ,2,b
A trout is not a [MASK].,fish,negated,2,B
A dog is not a [MASK].,animal,,NA,
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "own.parquet"
    FRAME.write_parquet(path)
    return path


@pytest.fixture(scope="module")
def run(ask, table):
    return ask(table)


@pytest.fixture(scope="module")
def logits(mini, mini_tokenizer):
    """The logits at the mask of a text, float64 [V]."""
    reference = MaskedLM(mini)

    def at_mask(text):
        ids = np.array(mini_tokenizer.encode([text]), np.int32)
        return logits_at(reference, ids, np.flatnonzero(ids[0] == mini_tokenizer.mask_id).astype(np.int32))[0]

    return at_mask


def test_every_item_is_what_the_logits_say(ask, table, run, logits, mini_tokenizer):
    both = ask(table, target=["target", "other"], top=3)
    assert len(both.items) == 2 * len(ROWS)
    for row in both.items.iter_rows(named=True):
        found = logits(row["text"])
        token = mini_tokenizer.backend.token_to_id(row["word"].lower())
        order = np.argsort(-found, kind="stable")
        assert row["logprob"] == pytest.approx(log_softmax(found)[token], abs=1e-4)
        assert row["rank"] == 1 + (found > found[token]).sum()
        assert row["is_top1"] == (order[0] == token)
        assert [row["top1"], row["top2"], row["top3"]] == [mini_tokenizer.token_text(i) for i in order[:3].tolist()]
        assert row["top3_logprob"] == pytest.approx(log_softmax(found)[order[2]], abs=1e-4)
        assert row["repeats_word"] == (row["row"] == 5)  # a target that stands in its sentence
    kept = ["group", "frequency"]  # what is asked stands in the requests, the item in `pair`
    assert both.items.filter(condition="other").select(kept).equals(FRAME.select(kept))
    keys = [(row, name, str(ROWS[row - 1][4])) for row in range(1, 7) for name in ("target", "other")]
    assert both.items.select("row", "condition", "pair").rows() == keys
    # One target is decided on the device, with the same results.
    columns, same = ["row", "word", "rank", "is_top1", "top1"], both.items.filter(condition="target")
    assert run.items.select(columns).equals(same.select(columns))
    assert run.items["logprob"].to_list() == pytest.approx(same["logprob"].to_list(), abs=1e-5)


@pytest.mark.parametrize("method", ["left-to-right", "all-masks", "whole-word"])
def test_targets_of_one_and_of_several_tokens_are_in_one_run(ask, run, method):
    data = FRAME.with_columns(other=pl.when(pl.col("item") == 1).then(pl.lit("woodpecker")).otherwise("other"))
    found = ask(data, target=["target", "other"], method=method)
    assert found.items["tokens"].to_list() == [1, 3, 1, 3] + [1] * 8
    assert found.items["logprob"].is_not_null().all()
    single = found.items.filter(condition="target")["logprob"]
    if method != "whole-word":
        assert single.to_list() == pytest.approx(run.items["logprob"].to_list(), abs=1e-4)
    assert not ng.verify(found, sample=20).damage
    assert f"2 of 12 targets are of several tokens: their log-probability is the sum over the tokens, by {method}" in (
        found.remarks()
    )
    (text,) = cite(found).methods
    assert "mean log-probability −" in text  # a minus sign for print
    assert "-0." not in text
    paper = "Pimentel and Meister, 2024" if method == "whole-word" else "Kauf and Ivanova, 2023"
    assert f"2 targets of several tokens were scored by the {method} method ({paper})" in text


def test_only_the_given_words_compete(ask, logits, mini_tokenizer, table, tmp_path):
    (tmp_path / "words.txt").write_text("bird\nfish\ndog\nmeat\ncat\nunspeakableness\n")
    found = ask(table, targets=str(tmp_path / "words.txt"), top=5)
    ids = sorted(mini_tokenizer.backend.token_to_id(word) for word in ("bird", "fish", "dog", "meat", "cat"))
    for row in found.items.iter_rows(named=True):
        own = logits(row["text"])[ids]
        place = ids.index(mini_tokenizer.backend.token_to_id(row["word"].lower()))
        assert row["rank"] == 1 + (own > own[place]).sum()
        assert row["logprob"] == pytest.approx(log_softmax(own)[place], abs=1e-4)
        assert row["top1"] == mini_tokenizer.token_text(ids[int(own.argmax())])
    assert not ng.verify(found, sample=20).damage
    said = "of 6 words of {} do not compete, as they are not one token of the model: 'unspeakableness'"
    said = f"1 {said.format(tmp_path / 'words.txt')}"
    assert said in found.remarks()
    text = str(cite(found))
    assert said in text
    assert "among the 5 words of a list" in text


def test_what_is_read_otherwise_is_told_before_and_after_a_run_and_in_the_methods(ask):
    sentences = ["A robin is a\u00a0[MASK].", " A robin is not a  [MASK].", "It [MASK]."]
    frame = {"sentence": sentences, "target": ["bird"] * 3}
    found, lines = ask(frame), ["at the ends is not read in 1 text", "before [MASK] is read as one space in 2 texts"]
    told = [f"white space {line} of sentence" for line in lines]
    assert found.remarks() == told
    assert all(line.capitalize().replace("[mask]", "[MASK]") in str(cite(found)) for line in told)
    assert (
        found.items["logprob"].to_list()[:2]
        == ask({"sentence": ["A robin is a [MASK].", "A robin is not a [MASK]."], "target": ["bird"] * 2})
        .items["logprob"]
        .to_list()
    )


def test_bad_rows_are_skipped_and_listed(ask):
    found = ask({**BAD, "group": ["a", "b", "b", "a", None]}, skip_bad=True)
    assert found.items["row"].to_list() == [1, 2, 3, 4, 5]
    assert found.items["why"].to_list() == [None, *REASONS]
    assert (
        found.items.filter(pl.col("why").is_not_null()).select("rank", "top1", "is_top1").null_count().row(0)
        == (4,) * 3
    )
    told = {f"rows excluded: 1 ({why})" for why in REASONS}
    assert {*found.remarks()} >= {*told, "excluded by group: b (2), a (1)"}
    assert found.sentences().height == set(found.summary["n"]).pop() == 1
    assert not ng.verify(found, sample=5).damage


def test_a_row_is_asked_for_all_its_targets_or_for_none(ask):
    data = {"sentence": ["A robin is a [MASK].", "A trout is a [MASK]."], "target": ["bird", "fish"]}
    found = ask({**data, "other": ["dog", "[SEP]"]}, target=["target", "other"], skip_bad=True)
    assert found.items["is_top1"].is_null().to_list() == [False, False, True, True]
    assert set(found.summary.filter(metric="logprob")["n"]) == {1}


ONE_BAD = {"sentence": ["b [MASK]."], "target": ["[SEP]"]}
WRONG = [  # None: the table as it is
    (None, {"sentence": "text"}, r"sentence='text': .*has no such column; it has 'sentence', 'target', 'other'"),
    (None, {"method": "whole-word", "top": 2}, "method whole-word ranks the tokens"),
    (None, {"unwanted": "group=negate"}, "did you mean 'negated'.* it has 'affirmative', 'negated'"),
    (ONE_BAD, {}, r"^the frame, row 1: target '\[SEP\]': '\[SEP\]' holds"),
    (ONE_BAD, {"skip_bad": True}, r"none of 1 requests can be asked \(1: '\[SEP\]' holds"),
    ({"sentence": [f"dog {LONG} [MASK]"], "target": ["bird"]}, {}, "target 'bird': 513 tokens, but mini takes"),
    ("folder", {}, "a folder of 2 tables; give one of them"),
]


def test_wrong_options_and_tables_are_one_line(model, table, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("a.csv", "b.csv"):
        FRAME.write_csv(tmp_path / "folder" / name)
    for given, options, message in WRONG:
        data = table if given is None else tmp_path / given if isinstance(given, str) else given
        with pytest.raises(InputError, match=message):
            ng.probe(model, data, output=tmp_path / "run", progress=False, **options)
        assert not (tmp_path / "run" / "items.parquet").exists()


def test_a_plan_counts_and_finds_all_bad_rows_at_once_and_writes_nothing(model, table, tmp_path):
    plan = OwnSentences(table, target=["target", "other"]).plan(model, {"output": tmp_path / "run"})
    counted = ("requests", "different texts", "parts of this run")
    assert [plan.work[name] for name in counted] == [12, 5, 1]
    assert plan.tables()[0].frame.filter(what="seconds")["number"][0] >= 0.1  # no 0.00 minutes
    assert {"column", "group", "rows", "items"} == {own.heading for own in plan.tables()[1].columns}
    assert not (tmp_path / "run").exists()
    plan = OwnSentences(BAD).plan(model, {})
    with pytest.raises(InputError, match=r"row 2: sentence has no \[MASK\].*\(4 rows are wrong; correct them, or skip"):
        plan.refuse_faults()


def test_a_file_beside_the_table_names_the_columns_once_for_every_run_and_every_recorded_call(ask, tmp_path):
    theirs = {"sentence": "Satz", "target": "Ziel", "group": "Bedingung", "item": "Paar"}
    place, beside = tmp_path / "saetze.csv", tmp_path / "saetze.columns.toml"
    FRAME.rename(theirs).write_csv(place)
    with pytest.raises(InputError, match=r"or once in .*saetze\.columns\.toml"):
        ask(place)
    given = {**theirs, "group": ["Bedingung"], "unwanted": "Bedingung=negated"}
    beside.write_text("".join(f"{name} = {own!r}\n" for name, own in given.items()))
    named, found = ask(place, **given), ask(place)
    assert found.summary.equals(named.summary)
    assert found.record.metadata["call"]["arguments"] == named.record.metadata["call"]["arguments"]
    assert ask(place, group="").columns.groups == ()
    beside.write_text('sentence = "Satz"\n')
    assert set(options_of(OwnSentences)) > {*OwnSentences.column_options()} > {*theirs}
    for wrong, message in {"targett = 'Ziel'": "unknown key 'targett'", "target = 3": "target is '3'"}.items():
        beside.write_text(f"sentence = 'Satz'\n{wrong}\n")
        with pytest.raises(InputError, match=rf"saetze\.columns\.toml:2: {message}"):
            ask(place)


WANTED = [
    (FRAME, {"unwanted": "group=negated"}, [True, False, True, False, True, True]),
    (FRAME.with_columns(pl.Series("wanted", WORDS)), {}, [True, False, True, False, True, None]),
    (FRAME, {"unwanted": "target_column=other", "target": ["target", "other"]}, [True, False] * 6),
    (
        FRAME.with_columns(pl.col("group").alias("a=b")),
        {"unwanted": "a=b=negated"},
        [True, False, True, False, True, True],
    ),
    (FRAME.rename({"group": "target_column"}), {"unwanted": "target_column=negated"}, [True, False] * 2 + [True, True]),
]


def test_a_wanted_target_is_right_if_it_is_the_first_choice_an_unwanted_one_if_not(ask):
    for data, options, wanted in WANTED:
        found = ask(data, **options)
        first = found.items["is_top1"].to_list()
        right = [None if want is None else want == own for want, own in zip(wanted, first, strict=True)]
        assert {True, False} <= set(right)
        rows = found.sentences()
        assert [found.items["correct"].to_list(), rows["correct"].to_list()] == [right, right]
        assert rows["failed"].to_list() == [None if own is None else not own for own in right]
        assert chosen(found, failed=True).collect().height == right.count(False)
        assert not ng.verify(found, sample=20).damage


def test_without_a_wanted_target_nothing_is_right_or_wrong(ask):
    run = ask(FRAME.with_columns(wanted=pl.lit(" ")))
    assert "right" not in cite(run).methods[0]
    assert run.sentences()["correct"].null_count() == run.sentences()["failed"].null_count() == len(ROWS)
    with pytest.raises(InputError, match="is called right or wrong: run probe with a column `wanted`"):
        chosen(run, failed=True)


def test_spaces_and_empty_cells_in_groups_items_and_clusters_count_as_documented(model, tmp_path, capsys):
    path = tmp_path / "dirty.csv"
    path.write_text(DIRTY)
    found = ng.probe(model, path, cluster="speaker", output=tmp_path / "run")
    said = f"{path}: speaker has 'b' (line 4) and 'B' (line 5), which differ in upper and lower case alone"
    assert said in capsys.readouterr().err
    sides = {("all", None), ("affirmative", None), ("negated", None), ("affirmative", "negated")}
    assert set(found.summary.select("split", "other_split").iter_rows()) == sides
    (row,) = found.summary.filter(split="all", metric="logprob").to_dicts()
    assert (row["n"], row["clusters"]) == (5, 4)  # a, b, B, and the row without a speaker
    assert found.summary.filter(other_split="negated", metric="logprob")["n"].to_list() == [2]
    path.write_text(DIRTY.replace(" negated", "1").replace("negated", "1.0"))
    ng.probe(model, path, output=tmp_path / "numbers")
    assert "group has '1' and '1.0', which can be one number: they count as different groups" in capsys.readouterr().err
    for one, other in (("Negated", "negated"), ("STRASSE", "straße"), ("STRAẞE", "straße")):
        path.write_text(DIRTY.replace(" negated", one).replace("negated", other))
        with pytest.raises(InputError, match=rf"dirty.csv: group has '{one}' \(line 3\) and '{other}' .* alike"):
            ng.probe(model, path, output=tmp_path / "other")


def test_the_tab_key_offers_six_names(run):
    offered = {name for name in dir(run) if name[0] != "_"}
    assert offered == {"folder", "sentences", "report", "tables", "items", "summary"}


def test_a_row_whose_two_targets_are_one_word_is_refused(ask):
    """Of one word, none is preferred: the row would count as if the second one were."""
    alike = FRAME.with_columns(other=pl.when(pl.col("item") == 3).then(pl.lit("Fish ")).otherwise("other"))
    with pytest.raises(InputError, match="row 5: target and other are the same word, Fish; give two that differ"):
        ask(alike, target=["target", "other"])


def test_names_of_groups_and_columns_are_never_read_as_structure(ask):
    frame = FRAME.with_columns(
        group=pl.col("group").replace("affirmative", "bird vs fish"), row=pl.lit("r"), logprob=pl.lit(1)
    )
    found = ask(frame, item="")
    assert "bird vs fish − negated, share of first choices" in str(cite(found))
    assert set(found.tables()[1].frame["split as read"]) == {"bird vs fish − negated"}
    assert found.remarks()[0].startswith("columns found by their names: group (groups); an empty name")
    assert set(found.items["table_row"]) == {"r"}
    assert set(found.items["table_logprob"]) == {1}
    assert found.items["row"].to_list() == [1, 2, 3, 4, 5, 6]
    assert not ng.verify(found, sample=1).damage
