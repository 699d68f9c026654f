"""`ng.likelihood`: sentences and minimal pairs from tables, results as frames, and what refuses a row."""

import hashlib
import shutil
from zipfile import ZipFile

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.atomic import json_bytes, write_bytes
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.sources import source
from negengine.engine.experiments.likelihood.likelihood import Likelihood, likelihood
from negengine.engine.experiments.likelihood.likelihood_columns import Columns
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from negengine.engine.results.verification.verify import verify
from negengine.engine.runs.stage import changed
from negengine.engine.text.table import open_table
from tokenizers import pre_tokenizers

from .conftest import SENTENCES

PAIRS = [
    ("Anna is happy.", "Anna are happy.", "agreement", "number"),
    ("He smokes.", "He smoke.", "agreement", "number"),
    ("She likes to dance.", "She likes to dances.", "form", "infinitive"),
    ("They are happy.", "They are happy.", "form", "same"),
]
BLIMP = [
    {"sentence_good": good, "sentence_bad": bad, "field": "syntax", "linguistics_term": term, "UID": uid, "pair_id": i}
    for i, (good, bad, term, uid) in enumerate(PAIRS)
]
BAD = {
    "It is [MASK].": r"the text holds the special token '\[MASK\]'",
    "\u0301 \u0301": "the text has no token",  # accents alone, which BERT's tokenizer drops
    None: "sentence is missing",
}
IN_ROWS = {"pair": "p", "acceptable": "{ok}"}
GIVEN = {"prefix": ["Anna is ", "She likes"], "good": ["a dancer.", "to smoke."], "bad": ["a dancers.", "to smokes."]}


def lines(path, rows):
    pl.DataFrame(rows).write_ndjson(path)
    return path


def run_on(model, data, output, **options):
    return likelihood(model, data, output=output, progress=False, **options)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = [{"text": text, "kind": f"k{i % 2}", "note": i} for i, text in enumerate(SENTENCES)]
    return lines(tmp_path_factory.mktemp("data") / "sentences.jsonl", rows)


@pytest.fixture(scope="module")
def run(model, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    return run_on(model, table, folder, group="kind", per_token=True, per_word=True)


@pytest.fixture(scope="module")
def pairs(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return run_on(model, lines(folder / "blimp.jsonl", BLIMP), folder / "run")


def test_a_row_has_the_sum_and_its_means_and_means_are_over_all_sentences_and_over_groups(run):
    items = run.items
    assert items.select("text", "row", "note", "words", "characters").rows() == [
        (text, i + 1, i, n, len(text)) for i, (text, n) in enumerate(zip(SENTENCES, [5, 11, 4, 4], strict=True))
    ]
    for of in ("token", "word", "character"):
        np.testing.assert_allclose(items[f"per_{of}"] * items[f"{of}s"], items["log_likelihood"])
    assert verify(run.folder, sample=0).damage == ()  # tokens and words sum to it
    tokens, words = (run.frame(name).filter(row=3) for name in ("tokens.parquet", "words.parquet"))
    assert words.select("word", "tokens").rows() == [("The", 1), ("doctor", 1), ("isn't", 3), ("happy.", 2)]
    pieces = zip(["the", "doctor", "isn", "'", "t", "happy", "."], [1, 2, 3, 3, 3, 4, 4], strict=True)
    assert tokens.select("token", "word").rows() == list(pieces)
    np.testing.assert_allclose(tokens["surprisal"], -tokens["logprob"] / np.log(2), rtol=1e-6)
    values = {(row["split"], row["metric"]): row for row in run.summary.to_dicts()}
    assert {split for split, _ in values} == {"all", "k0", "k1"}
    for split, own in (("all", items), ("k0", items.filter(kind="k0"))):
        row, perplexity = values[split, "per_token"], np.exp(-own["log_likelihood"].sum() / own["tokens"].sum())
        assert (row["value"], row["n"]) == (pytest.approx(own["per_token"].mean()), len(own))
        assert row["low"] < row["value"] < row["high"]
        assert values[split, "perplexity"]["value"] == pytest.approx(perplexity)


def test_a_perplexity_that_no_number_can_hold_is_left_out():
    """exp(709) is 8.2e307, exp(710) is more than the largest number, 1.8e308."""
    keys = {"dataset": "D", "condition": "c", "role": pl.Series([None], dtype=pl.String), "columns": [[None]]}
    for nats, held in ((709.0, [8.218407461554972e307]), (710.0, []), (1e6, [])):
        rows = pl.DataFrame({**keys, "splits": [["all"]], "logprob": [-2 * nats], "tokens": [2]})
        assert [row.value for row in Likelihood.further(rows)] == pytest.approx(held)


def test_the_other_method_is_another_run_and_another_paper(run, model, table, tmp_path):
    other = run_on(model, table, tmp_path / "run", method="within-word-l2r")
    assert (other.items["log_likelihood"] < run.items["log_likelihood"]).any()
    assert ["Kauf" in cite(own).bibtex for own in (run, other)] == [False, True]


def test_long_sentences_are_refused_by_row_or_read_in_windows(causal_model, tmp_path):
    long = {"sentence": ["She smokes.", "Anna likes to smoke " * 20]}
    with pytest.raises(
        InputError, match=r"the frame, row 2: the text has more tokens than the model takes \(48\): shorten"
    ):
        run_on(causal_model, long, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    items = run_on(causal_model, long, tmp_path / "b", windows=True).items
    assert items["tokens"].to_list() == [4, 80]
    assert verify(tmp_path / "b", sample=20).damage == ()


def test_a_pair_is_correct_where_the_good_sentence_is_the_more_probable_one_and_blimps_columns_are_groups(pairs):
    good, bad = (pairs.items.filter(role=side) for side in ("good", "bad"))
    assert bad["accuracy"].null_count() == len(bad) == len(good) == len(PAIRS)
    difference = good["log_likelihood"] - bad["log_likelihood"]
    assert good["accuracy"].to_list() == (difference > 1e-4).to_list()
    assert good["ties"].to_list() == [False, False, False, True]
    assert good["accuracy"].to_list()[3] is False
    rows = pairs.labelled.filter(metric="accuracy")
    groups = ["field: syntax", "linguistics_term: agreement", "linguistics_term: form"]
    assert rows["group"].to_list() == ["all", *groups, "UID: number", "UID: infinitive", "UID: same"]
    assert rows.select("n", "clusters").row(0) == (4, 3)
    assert rows.filter(column="UID", split="number")["clusters"].to_list() == [None]


def test_pairs_in_two_rows_are_those_in_one_row(pairs, model, tmp_path):
    rows = [{"number": i, "s": text, "ok": word} for i, (good, bad, *_) in enumerate(PAIRS)
            for text, word in ((bad, "Ungrammatical"), (good, "true"))]  # fmt: skip
    data = lines(tmp_path / "rows.jsonl", rows)
    named = {"sentence": "s", "pair": "number", "acceptable": "ok", "per_token": True, "per_word": True}
    asking = changed(Likelihood(data, **named), rows_per_part=3)
    other = asking.run(model, {"output": tmp_path / "run", "progress": False})
    for column in ("accuracy", "ties"):
        wanted = pairs.items.filter(role="good")[column].to_list()
        assert other.items.filter(role="good")[column].to_list() == wanted
    assert verify(other.folder, sample=0).damage == ()


def test_what_does_not_count_is_told(model, tmp_path):
    data = {"sentence": ["She smokes \U00013000.", "He smoke.", "a [PAD]"], "p": ["a", "b", "b"], "ok": [1, 1, 0]}
    run = run_on(model, data, tmp_path / "run", pair="p", acceptable="ok", skip_bad=True)
    assert run.remarks() == [
        "sentences excluded: 1 (the pair has no bad sentence; it needs one of each)",
        "sentences excluded: 1 (the text holds the special token '[PAD]'; give a sentence in plain words)",
    ]


def test_a_folder_of_tables_is_one_run(model, pairs, tmp_path):
    (tmp_path / "set").mkdir()
    for number in range(2):
        lines(tmp_path / "set" / f"part-{number}.jsonl", BLIMP[2 * number : 2 * number + 2])
    other = run_on(model, tmp_path / "set", tmp_path / "run")
    assert other.items["file"].unique(maintain_order=True).to_list() == ["part-0", "part-1"]
    np.testing.assert_allclose(other.items["log_likelihood"], pairs.items["log_likelihood"], atol=1e-4)
    assert other.summary.select("split", "metric", "n").equals(pairs.summary.select("split", "metric", "n"))


def test_a_file_of_a_data_set_is_read_by_its_name_and_by_the_columns_of_its_authors(model, tmp_path, monkeypatch):
    """MultiBLiMP as pandas writes it."""
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path))
    rows = [f"{i}\t{good}\t{bad}\t{group}\n" for i, (good, bad, group, *_) in enumerate(PAIRS)]
    table = "\tsen\twrong_sen\tgrammatical_feature\n" + "".join(rows)
    names = source("multiblimp").unfixed
    (tmp_path / "multiblimp").mkdir()
    for name in names:
        write_bytes(tmp_path / "multiblimp" / name, table.encode())
    digests = dict.fromkeys(names, hashlib.sha256(table.encode()).hexdigest())
    write_bytes(tmp_path / "multiblimp" / "digests.json", json_bytes(digests))
    run = run_on(model, "multiblimp:nld", tmp_path / "run")
    assert run.columns == Columns(good="sen", bad="wrong_sen", groups=("grammatical_feature",))
    assert run.record.metadata["call"]["arguments"]["data"] == "multiblimp:nld"
    assert "Jumelet" in cite(run).text
    japanese = ("good_sentence", "bad_sentence", "phenomenon", "paradigm")  # JBLiMP; TurBLiMP has no paradigms
    assert Likelihood({}).columns(open_table({name: ["a"] for name in japanese})).cluster == "paradigm"


def test_bad_rows_are_refused_or_skipped_and_listed(model, tmp_path):
    for row, message in BAD.items():
        with pytest.raises(InputError, match=f"the frame, row 2: {message}"):
            run_on(model, {"sentence": ["She smokes.", row]}, tmp_path / "a")
    data = {"sentence": ["She smokes.", *BAD, "He is happy."], "note": list("abcde")}
    run = run_on(model, data, tmp_path / "b", skip_bad=True, per_word=True)
    asked = run.items.filter(pl.col("why").is_null())
    assert (asked["row"].to_list(), run.items["row"].to_list()) == ([1, 5], [1, 2, 3, 4, 5])
    assert asked["log_likelihood"].null_count() == 0
    shutil.rmtree(run.folder / "parts")
    assert verify(run.folder, sample=0).damage == ()


def rows(*known):
    """Sentences that may be pairs in two rows."""
    return {"sentence": ["She smokes."] * len(known), "p": [pair for pair, _ in known], "{ok}": [ok for _, ok in known]}


WRONG = [
    ({"other": ["a"]}, {}, "no column 'sentence'; it has 'other'"),
    ({"sentence": ["a"]}, {"pair": "x"}, "--acceptable COLUMN"),
    ({"sentence": ["a"]}, {"bos": True}, "--bos is for causal models; mini is a masked one"),
    (rows(("a", 1), ("b", 1), ("b", 0)), IN_ROWS, "row 1: a: the pair has no bad sentence; it needs one of each"),
    (rows(("a", "maybe")), IN_ROWS, "row 1: {ok} is maybe; one of good/bad, acceptable/unacceptable"),
]


def test_a_wrong_call_is_one_line(model, tmp_path):
    for data, options, message in WRONG:
        with pytest.raises(InputError, match=message):
            run_on(model, data, tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()


def test_a_tokenizer_that_does_not_tell_words_apart_is_refused_for_a_method_of_words(model, monkeypatch):
    monkeypatch.setattr(model.exported.tokenizer.backend, "pre_tokenizer", pre_tokenizers.Sequence([]))
    with pytest.raises(InputError, match="of mini does not divide a text into words; give --method original"):
        Likelihood({"sentence": ["a"]}, method="within-word-l2r").stage(model.exported)


def test_a_causal_model_has_exact_log_likelihoods_and_takes_no_method(run, causal_model, table, tmp_path):
    exact = run_on(causal_model, table, tmp_path / "run", group="kind", per_word=True)
    assert "from left to right" in exact.methods("")
    assert verify(exact.folder, sample=30).damage == ()
    with pytest.raises(InputError, match="scores pseudo-log-likelihood, there log-likelihood"):
        compare(run, exact)
    with pytest.raises(InputError, match="is a causal model, whose log-likelihoods are exact; leave --method out"):
        run_on(causal_model, {"sentence": ["a"]}, tmp_path / "other", method="original")


def test_accuracies_of_masked_and_causal_models_are_compared_on_the_same_pairs(pairs, causal_model, tmp_path):
    other = run_on(causal_model, lines(tmp_path / "blimp.jsonl", BLIMP), tmp_path / "run")
    found = compare(pairs, other)
    said = "which sentence is the more probable one: mini by pseudo-log-likelihood (original), "
    assert any(note.startswith(said) and note.endswith("by log-likelihood") for note in found.table.notes)


@pytest.mark.parametrize("kind", ["model", "causal_model"])
def test_what_stands_before_is_read_and_only_what_follows_is_scored(request, kind, tmp_path):
    model = request.getfixturevalue(kind)
    found = run_on(model, GIVEN, tmp_path / "run", per_word=True, per_token=True)
    before = [text.strip() for text in GIVEN["prefix"]]
    joined = {side: [" ".join(own) for own in zip(before, GIVEN[side], strict=True)] for side in ("good", "bad")}
    whole = run_on(model, joined, tmp_path / "whole", per_word=True)
    assert found.items["words"].to_list() == [2] * 4
    words = whole.frame("words.parquet").filter(pl.col("number") > 2)
    own = found.frame("words.parquet")
    assert own["word"].to_list() == words["word"].to_list()
    assert own["number"].to_list() == [1, 2] * 4
    np.testing.assert_allclose(own["logprob"], words["logprob"], rtol=0, atol=1e-5)
    assert verify(found.folder, sample=30).damage == ()


def test_white_space_at_the_ends_changes_nothing_and_is_told(model, causal_model, tmp_path, capsys):
    """A continuation with its space, a line end and a no-break space behind a sentence; a joiner of one's own."""
    clean = {"prefix": ["Is it true? Answer:"], "good": ["Anna is happy."], "bad": ["Anna are happy."]}
    odd = {"prefix": [" Is it true? Answer: "], "good": ["\tAnna is happy. "], "bad": ["Anna are happy.\n"]}
    for name, own in (("masked", model), ("causal", causal_model)):
        one = run_on(own, clean, tmp_path / f"{name} clean").items
        other = run_on(own, odd, tmp_path / f"{name} odd").items
        assert one.drop("context", "text").equals(other.drop("context", "text"))
        joined = run_on(own, clean, tmp_path / f"{name} joined", joiner=" ")
        assert joined.items.equals(one)
        assert not ng.verify(joined, sample=20).damage
        close = run_on(own, clean, tmp_path / f"{name} close", joiner=" - ")
        assert close.items["log_likelihood"].to_list() != one["log_likelihood"].to_list()
        assert close.sentence_rows().collect()["sentence"][0] == "Is it true? Answer: - Anna is happy."
        assert not ng.verify(close, sample=20).damage
    with pytest.raises(InputError, match=r"^--joiner: there is no column that stands before the sentences"):
        run_on(model, {"text": ["Anna is happy."]}, tmp_path / "none", joiner="")


def test_a_marker_of_a_missing_word_is_no_sentence(causal_model, tmp_path):
    with pytest.raises(InputError, match=r"holds the special token '\[MASK\]'"):
        run_on(causal_model, {"text": ["She likes to [MASK]."]}, tmp_path / "run")


def test_labels_are_never_read_as_structure_and_published_spellings_are_one(model, tmp_path):
    fields = ["syntax_semantics", "syntax/semantics", "all", "a|b"]
    rows = [BLIMP[i] | {"field": field} for i, field in enumerate(fields)]
    run = run_on(model, rows, tmp_path / "run")
    assert set(run.items["field"]) == {"syntax_semantics", "all", "a|b"}
    told = Likelihood(rows).stage(model.exported).experiment.told
    [note] = [own for own in told.notes if "'syntax/semantics'" in own]
    assert note.endswith("counts as 'syntax_semantics', as the authors of the data count it (1 row)")
    assert {"field: all", "field: a|b", "field: syntax_semantics"} <= set(run.labelled["group"])
    plain = [{"good": row["sentence_good"], "bad": row["sentence_bad"], "group": row["field"]} for row in rows]
    found = run_on(model, [*plain, plain[3] | {"group": "a/b"}], tmp_path / "plain")
    n = dict(found.labelled.filter(metric="accuracy").select("group", "n").iter_rows())
    assert n == {"all": 5, "syntax_semantics": 1, "syntax/semantics": 1, "group: all": 1, "a|b": 1, "a/b": 1}
    assert not verify(found.folder, sample=0).damage
    assert "Columns of the table: group (groups)." in str(cite(found))


def test_files_with_different_keys_are_one_table_and_columns_by_name_are_told_and_left_out(model, tmp_path):
    (tmp_path / "two").mkdir()
    lines(tmp_path / "two/a.jsonl", [BLIMP[0] | {"lexically_identical": True, "prefix": "So"}])
    lines(tmp_path / "two/b.jsonl", [BLIMP[1] | {"one_prefix_method": 1}])
    with pytest.raises(InputError, match=r"b\.jsonl: no column 'prefix', which others of these files have"):
        run_on(model, tmp_path / "two", tmp_path / "run")
    run = run_on(model, tmp_path / "two", tmp_path / "run", prefix="", cluster="")
    assert run.items["one_prefix_method"].to_list() == [None, None, 1, 1]
    by_name = "columns found by their names: field and linguistics_term and UID (groups); an empty name"
    assert run.remarks()[0].startswith(by_name)
    given = run_on(model, GIVEN, tmp_path / "given").remarks()
    assert given[1:3] == [
        "white space at the ends is not read in 1 text of prefix",
        "prefix and sentence are joined by a space, and by nothing between scripts without spaces",
    ]
    assert not run_on(model, BLIMP, tmp_path / "none", group="", cluster="").remarks()


def test_pairs_without_a_name_are_no_pairs(model, tmp_path):
    for missing in (None, "NA", " ", "<NA>", float("nan")):
        with pytest.raises(InputError, match="row 3: p is empty; the two rows of a pair must share a value"):
            run_on(model, rows(("1", 1), ("1 ", 0), (missing, 1), (missing, 0)), tmp_path / "run", **IN_ROWS)


@pytest.mark.everything  # `make test` has the real headers of its files: test_published.py
@pytest.mark.parametrize("pairs", [2, 5])
def test_blimp_is_read_as_its_authors_read_it(causal_model, model, shared, tmp_path, pairs):
    """Some pairs of all 67 published files in an archive: six sets of keys, one field in two spellings, sums compared.

    5 of each are asked of the bundled model, too.
    """
    place, n = shared / "data" / "datasets" / "blimp", 0
    with ZipFile(place / "BLiMP.zip") as packed, ZipFile(tmp_path / "blimp.zip", "w") as some:
        for name in packed.namelist():
            lines = b"\n".join(packed.read(name).splitlines()[:pairs])
            some.writestr(name, lines)
            n += name.endswith(".jsonl") and "__MACOSX" not in name
    assert n == 67
    asked = causal_model if pairs == 2 else model
    run = run_on(asked, tmp_path / "blimp.zip", tmp_path / "run", published=place / "models_summary.jsonl")
    [table] = run.tables()
    rows = {(row["column"], row["split"]): row for row in table.frame.to_dicts()}
    fields = [key for key in rows if key[0] == "field"]
    assert {name for _, name in fields} == {"morphology", "semantics", "syntax", "syntax_semantics"}
    wanted = {(None, "all"), *fields, ("linguistics_term", "npi_licensing"), ("UID", "npi_present_1")}
    assert wanted < set(rows)
    assert len(rows) == 1 + 4 + 12 + 67
    said = {key: row["published gpt2"] for key, row in rows.items()}
    assert [key for key, value in said.items() if value is None] == fields  # the authors publish none
    assert (said[None, "all"], said["UID", "npi_present_1"]) == (0.830238806, 0.648)
    good, bad = (run.items.filter(role=side)["log_likelihood"].to_numpy() for side in ("good", "bad"))
    assert len(good) == pairs * 67
    assert run.items.filter(role="good")["accuracy"].to_list() == (good - bad > 1e-4).tolist()
