"""docs/files.md has every column of every result file, and no other column: compared with the files of small runs."""

import json

import negengine as ng
import polars as pl
import pytest
from documented import PAGE, documented

FACT = {"relation": "place_of_birth", "sub_label": "Anna", "obj_label": "london"}
FACT |= {"masked_sentence": "Anna was born in [MASK] .", "masked_negation": "Anna was not born in [MASK] ."}
CONTEXTS = (
    "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
    "0\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect\n"
)
OWN = {"sentence": ["A robin is a [MASK].", "no mask"], "target": ["bird", "bird"], "group": ["a", "b"]}
PAIRS = {"good": ["She smokes.", "He is happy."], "bad": ["She smoke.", "[MASK]"]}


@pytest.fixture(scope="module")
def runs(mini, small_lexicon, scored_run, once, tmp_path_factory):
    """A small run of each probe by name; that of the negation test is `score`."""
    from cue_detectors import write_detector
    from negengine.export.build import build

    folder, model = tmp_path_factory.mktemp("runs"), ng.load(mini.folder, device="cpu", precision="fp32")
    made = once("cue-detector", lambda folder: build(str(write_detector(folder / "detector")), folder / "out"))
    detector = ng.load(made / "out", task="token-classification", device="cpu")
    (folder / "GoogleRE.jsonl").write_text(json.dumps(FACT) + "\n")
    (folder / "NEG-136-SIMP.tsv").write_text(CONTEXTS)
    (folder / "text.txt").write_text("I never know.\n")
    (folder / "set").mkdir()
    for name in ("one", "two"):
        pl.DataFrame(PAIRS).write_csv(folder / "set" / f"{name}.csv")

    given = {
        "gh22": ((model,), {"pairs": 2, "ranks": (1,), "lexicon": small_lexicon}),
        "lama": ((model,), {"data": folder / "GoogleRE.jsonl"}),
        "diagnostics": ((model,), {"data": folder / "NEG-136-SIMP.tsv", "dataset": "NEG-136-SIMP"}),
        "cues": ((detector, folder / "text.txt"), {}),
        "probe": ((model, OWN), {"skip_bad": True, "unwanted": "group=a"}),
        "likelihood": ((model, folder / "set"), {"per_token": True, "per_word": True, "skip_bad": True}),
    }
    found = {
        name: getattr(ng, name)(*own, **options, output=folder / name, progress=False)
        for name, (own, options) in given.items()
    }
    return {"score": ng.open(scored_run), **found}


def columns(path):
    return list(pl.read_parquet_schema(path))


def test_the_files_of_the_negation_test_are_documented(scored_run, whole_words_run):
    names = ("triplets", "answers", "scores", "rates")
    for name in (*names, "triplets_several_tokens", "scores_several_tokens", "rates_by_tokens"):
        run = whole_words_run if "tokens" in name else scored_run
        assert documented(f"{name}.parquet") == columns(run / f"{name}.parquet"), name
    found = json.loads((scored_run / "selection.json").read_text("utf-8"))
    assert set(documented("selection.json")) == {*found, "lazy", "several_tokens", "by_tokens"}


def test_the_files_of_probes_are_documented(runs):
    own = {"probe": set(OWN), "likelihood": set(PAIRS)}  # a table of the user's own keeps its columns
    for name in ("gh22", "lama", "diagnostics", "cues", "probe", "likelihood"):
        folder = runs[name].folder
        items = set(columns(folder / "items.parquet")) - own.get(name, set())
        assert set(documented(f"items.parquet` of `{name}")) == items, name
        assert documented("summary.parquet") == columns(folder / "summary.parquet"), name
    assert documented("acts.parquet") == columns(runs["gh22"].folder / "acts.parquet")
    assert documented("skipped.parquet") == columns(runs["probe"].folder / "skipped.parquet")
    for file in ("tokens.parquet", "words.parquet"):
        file_column, row, _, *rest = columns(runs["likelihood"].folder / file)
        assert (file_column, documented(file)) == ("file", [row, *rest])
    assert columns(runs["likelihood"].folder / "skipped.parquet") == ["file", *documented("skipped.parquet")]


def test_the_files_of_a_run_and_the_columns_that_all_sentences_have_are_named(runs):
    page = PAGE.read_text("utf-8")
    files = {path.name for run in runs.values() for path in run.folder.iterdir() if not path.name.startswith(".")}
    assert not [name for name in files if name not in page and not name.endswith(".done.json")]
    shared = {"item", "condition", "sentence", "expected", "answer", "failed", "rank", "logprob"}
    assert not [name for name in shared if f"`{name}`" not in page.partition("## Sentences")[2]]
    assert not [name for name, run in runs.items() if not shared <= set(run.sentences().columns)]
