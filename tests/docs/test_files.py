"""docs/files.md has every column of every result file, and no other column: compared with the files of small runs."""

import json

import negengine as ng
import polars as pl
import pytest
from documented import PAGE, documented

FACT = {
    "relation": "place_of_birth",
    "sub_label": "Anna",
    "obj_label": "london",
    "masked_sentence": "Anna was born in [MASK] .",
    "masked_negation": "Anna was not born in [MASK] .",
}
CONTEXTS = (
    "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
    "0\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect\n"
)


@pytest.fixture(scope="module")
def model(mini):
    return ng.load(mini.folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def gh22(model, small_lexicon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gh22") / "run"
    return ng.gh22(model, pairs=2, ranks=(1,), lexicon=small_lexicon, output=folder, progress=False)


@pytest.fixture(scope="module")
def lama(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lama")
    (folder / "GoogleRE.jsonl").write_text(json.dumps(FACT) + "\n")
    return ng.lama(model, data=folder, output=folder / "run", progress=False)


@pytest.fixture(scope="module")
def diagnostics(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnostics")
    (folder / "NEG-136-SIMP.tsv").write_text(CONTEXTS)
    return ng.diagnostics(model, data=folder, dataset="NEG-136-SIMP", output=folder / "run", progress=False)


@pytest.fixture(scope="module")
def cues(once, tmp_path_factory):
    from cue_detectors import write_detector
    from negengine.export.build import build

    made = once("cue-detector", lambda folder: build(str(write_detector(folder / "detector")), folder / "out"))
    folder = tmp_path_factory.mktemp("cues")
    (folder / "text.txt").write_text("I never know.\n")
    detector = ng.load(made / "out", task="token-classification", device="cpu")
    return ng.cues(detector, folder / "text.txt", output=folder / "run", progress=False)


@pytest.fixture(scope="module")
def probe(model, tmp_path_factory):
    data = {"sentence": ["A robin is a [MASK].", "no mask"], "target": ["bird", "bird"], "group": ["a", "b"]}
    folder = tmp_path_factory.mktemp("probe") / "run"
    return ng.probe(model, data, skip_bad=True, output=folder, progress=False)


@pytest.fixture(scope="module")
def likelihood(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("likelihood")
    (folder / "set").mkdir()
    for name in ("one", "two"):
        table = {"good": ["She smokes.", "He is happy."], "bad": ["She smoke.", "[MASK]"]}
        pl.DataFrame(table).write_csv(folder / "set" / f"{name}.csv")
    run = {"per_token": True, "per_word": True, "skip_bad": True, "output": folder / "run", "progress": False}
    return ng.likelihood(model, folder / "set", **run)


def columns(path):
    return list(pl.read_parquet_schema(path))


@pytest.mark.parametrize("file", ["triplets.parquet", "answers.parquet", "scores.parquet", "rates.parquet"])
def test_the_files_of_the_negation_test_are_documented(file, scored_run):
    assert documented(file) == columns(scored_run / file)


def test_the_keys_of_a_selection_are_documented(scored_run):
    found = json.loads((scored_run / "selection.json").read_text("utf-8"))
    assert set(documented("selection.json")) == {*found, "lazy", "several_tokens", "by_tokens"}


@pytest.mark.parametrize(
    "file", ["triplets_several_tokens.parquet", "scores_several_tokens.parquet", "rates_by_tokens.parquet"]
)
def test_the_files_about_verbs_of_several_tokens_are_documented(file, whole_words_run):
    assert documented(file) == columns(whole_words_run / file)


@pytest.mark.parametrize("file", ["acts.parquet", "items.parquet", "summary.parquet"])
def test_the_files_of_gh22_are_documented(file, gh22):
    name = "items.parquet` of `gh22" if file == "items.parquet" else file
    assert documented(name) == columns(gh22.folder / file)


@pytest.mark.parametrize("probe", ["lama", "diagnostics", "cues"])
def test_the_items_of_a_probe_are_documented(probe, request):
    run = request.getfixturevalue(probe)
    assert set(documented(f"items.parquet` of `{probe}")) == set(columns(run.folder / "items.parquet"))
    assert documented("summary.parquet") == columns(run.folder / "summary.parquet")


def test_the_files_of_own_stimuli_are_documented(probe):
    own = {"sentence", "target", "group"}
    found = columns(probe.folder / "items.parquet")
    assert documented("items.parquet` of `probe") == [name for name in found if name not in own]
    assert documented("skipped.parquet") == columns(probe.folder / "skipped.parquet")
    assert documented("summary.parquet") == columns(probe.folder / "summary.parquet")


def test_the_files_of_likelihoods_are_documented(likelihood):
    found = columns(likelihood.folder / "items.parquet")
    assert documented("items.parquet` of `likelihood") == [name for name in found if name not in {"good", "bad"}]
    for file in ("tokens.parquet", "words.parquet"):
        own = columns(likelihood.folder / file)
        assert own[:3] == ["file", "row", "side"]
        assert documented(file) == ["row", *own[3:]]
    assert columns(likelihood.folder / "skipped.parquet") == ["file", *documented("skipped.parquet")]
    assert documented("summary.parquet") == columns(likelihood.folder / "summary.parquet")


def test_the_files_of_a_run_are_named(gh22, lama, diagnostics, probe, likelihood, scored_run):
    folders = (*(run.folder for run in (gh22, lama, diagnostics, probe, likelihood)), scored_run)
    files = {path.name for folder in folders for path in folder.iterdir()}
    files = {"STAGE.done.json" if name.endswith(".done.json") else name for name in files}
    assert not [name for name in files if not name.startswith(".") and name not in PAGE.read_text("utf-8")]


def test_the_columns_that_all_sentences_have_are_documented(
    scored_run, gh22, lama, diagnostics, cues, probe, likelihood
):
    text = PAGE.read_text("utf-8").partition("## Sentences")[2]
    for run in (ng.open(scored_run), gh22, lama, diagnostics, cues, probe, likelihood):
        shared = {"item", "condition", "sentence", "expected", "answer", "failed", "rank", "logprob"}
        assert shared <= set(run.sentences().columns)
        assert all(f"`{name}`" in text for name in shared)
