"""`import negengine as ng`: quick, typed, complete; models are found or exported; runs and predictions are values."""

import inspect
import shutil
from pathlib import Path

import negengine as ng
import pytest
from lies import reseal
from negengine.engine.basics.versions import requirement
from negengine.engine.inference.exported import GRAPH
from negengine.engine.library import model as loading
from negengine.engine.library.model import ModelReference
from negengine.engine.library.predict import Predictions
from negengine.export.source import BUNDLED


def test_importing_it_imports_no_library_and_using_it_nothing_of_the_exporter(python):
    program = "import sys, negengine as ng; print(*sys.modules); ng.load, ng.select, ng.compare; print(*sys.modules)"
    imported, used = map(str.split, python("-c", program).out.splitlines())
    assert not {"numpy", "polars", "onnxruntime", "scipy", "torch", "click"} & {*imported}
    assert not {"torch", "transformers", "optimum", "onnx"} & {*used}


def test_it_is_typed_and_every_name_and_every_argument_is_described():
    assert Path(ng.__file__).with_name("py.typed").is_file()
    assert set(ng.__all__) <= set(dir(ng))
    assert not {"engine", "export", "bench"} & set(ng.__all__)  # an imported package would stand in their place
    for name in ng.__all__:
        found, text = getattr(ng, name), inspect.getdoc(getattr(ng, name))
        assert text, name
        if name.islower():
            parameters = inspect.signature(found).parameters
            assert not [one for one in parameters if f"{one}:" not in text or one not in found.__annotations__], name
            assert "InputError" in text, name


def test_errors_name_arguments_as_python_does_and_commands_as_a_shell_does(mini, small_lexicon, tmp_path):
    rows = {"sentence": ["A robin is a [MASK]."], "target": ["bird"]}
    wrong = {
        "pairs=0: give a number of at least 1": lambda: ng.select(mini.folder, pairs=0),
        "give the right one with target=COLUMN": lambda: ng.probe(mini.folder, {"sentence": rows["sentence"]}),
        "row 1: sentence has no [MASK]": lambda: ng.probe(mini.folder, rows | {"sentence": ["A robin."]}),
        "unwanted='group=x'": lambda: ng.probe(mini.folder, rows | {"group": ["a"]}, unwanted="group=x"),
        "device='gpu': give auto, cpu": lambda: ng.probe(mini.folder, rows, device="gpu"),
        "method='all-masks'": lambda: ng.likelihood(mini.folder, rows, method="all-masks"),
    }
    for said, call in wrong.items():
        with pytest.raises(ng.InputError) as error:
            call()
        assert said in str(error.value)
        assert " --" not in str(error.value)


def test_the_tab_key_offers_what_one_does_with_a_run_and_its_frames(scored_run, selected_run):
    offered = {"folder", "sentences", "report", "tables"}
    found = {name for name in dir(ng.open(scored_run)) if name[0] != "_"}
    assert found == offered | {"items", "rates", "triplets"} & found
    assert offered | {"items", "rates"} <= found
    assert {"acts", "summary"}.isdisjoint(found)


@pytest.fixture
def exports(monkeypatch, mini, tmp_path):
    """The exporter's calls, in an empty folder; it copies an export that is there, as a real one takes long."""
    calls = []

    def export(reference, output=None, **options):
        calls.append((reference, options))
        return Path(shutil.copytree(mini.folder, Path("models") / reference))

    monkeypatch.setattr(loading, "export", export)
    monkeypatch.chdir(tmp_path)
    return calls


def test_a_model_is_exported_on_first_use_and_found_on_the_second(exports):
    assert ng.load("mini").name == "mini"
    model = ng.load("mini", device="cpu,cpu")
    given = {"task": None, "base": None, "revision": None, "allow_pickle": False, "progress": True}
    assert exports == [("mini", given)]
    assert ng.load(model) is model


def test_a_checkpoint_that_was_trained_on_is_exported_again(exports, mini, tmp_path):
    checkpoint, folder = tmp_path / "tiny", tmp_path / "models" / "tiny"
    shutil.copytree(BUNDLED, checkpoint)
    shutil.copytree(mini.folder, folder)
    reseal(folder / "export.json", lambda info: info.update(origin=str(checkpoint)))
    for place in (None, folder):
        assert ModelReference(str(checkpoint), place).open(None, lambda: None).name == "mini"  # of the same files
    with (checkpoint / "config.json").open("a") as config:
        config.write("\n")
    for place in (None, folder):
        with pytest.raises(FileExistsError):  # by the copy that stands for an export
            ModelReference(str(checkpoint), place).open(None, lambda: None)
    assert [reference for reference, _ in exports] == [str(checkpoint)] * 2


FUNCTIONS = [name for name in ng.__all__ if name.islower()]


WRONG_DATA = {
    "select": {"lexicon": "no folder"},
    "gh22": {"lexicon": "no folder"},
    "lama": {"data": "no folder"},
    "diagnostics": {"data": "no folder"},
    "nli": {"data": "no folder"},
    "cues": {"files": "no folder"},
    "probe": {"data": {"sentence": ["A [MASK]."], "word": ["b"]}},
    "likelihood": {"data": {"words": ["a b"]}},
    "choice": {"data": {"candidates": ["a|b"]}},
}


@pytest.mark.parametrize("name", WRONG_DATA)
def test_wrong_data_are_told_before_a_model_is_exported(name, exports):
    with pytest.raises(ng.InputError, match=r"no folder|no column"):
        getattr(ng, name)("lab/model", **WRONG_DATA[name])
    assert exports == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_keyword_that_a_function_does_not_take_is_refused_with_the_nearest_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = getattr(ng, name)
    known = inspect.signature(function).parameters
    own_names = [key for key, own in known.items() if own.kind is not own.VAR_KEYWORD]
    needed = {key: "runs/none" for key in own_names if known[key].default is inspect.Parameter.empty}
    some = own_names[-1]
    for wrong, told in ((f"{some}x", f"did you mean {some!r}"), ("nonsense_qq", "it takes ")):
        with pytest.raises(TypeError, match=rf"{function.__name__}\(\) does not take '{wrong}': {told}"):
            function(**needed, **{wrong: 1})
    assert not [*tmp_path.iterdir()]


OF_A_MODEL = [name for name in FUNCTIONS if "OpeningOptions" in (inspect.getdoc(getattr(ng, name)) or "")]


@pytest.mark.parametrize("name", OF_A_MODEL)
def test_how_a_model_is_opened_is_said_beside_its_name_and_refused_beside_an_open_model(name, mini, exports):
    function = getattr(ng, name)
    first, *others = [key for key in inspect.signature(function).parameters if key not in {"options", "opening"}]
    given = {key: ["x"] for key in others if inspect.signature(function).parameters[key].default is inspect._empty}
    for wrong, said in (({"precision": "int8"}, "precision='int8'"), ({"threads": 0}, "threads=0")):
        with pytest.raises(ng.InputError, match=said):
            function(**{first: "none"}, **given, **wrong)
    if first in {"model", "reference"}:
        told = r"Model\('mini' on cpu, precision auto\) is open already: give precision and threads to `load`"
        with pytest.raises(TypeError, match=told):
            function(**{first: ng.load(mini.folder, device="cpu")}, **given, precision="fp32", threads=1)


def test_a_run_works_as_the_keywords_say(mini, small_lexicon, tmp_path):
    options = {"precision": "fp32", "threads": 1, "batch_tokens": 64, "progress": False}
    run = ng.select(mini.folder, pairs=3, lazy=True, lexicon=small_lexicon, output=tmp_path / "run", **options)
    scores = ng.score(run, **{**options, "batch_tokens": 128}, output=tmp_path / "scores")
    found = [own.record.metadata["call"]["model"] for own in (run, scores)]
    told = [(own["precision"], own["threads"], own["batch_tokens"]) for own in found]
    assert told == [("fp32", 1, 64), ("fp32", 1, 128)]
    with pytest.raises(TypeError, match="is open already: give precision to `load`"):
        ng.score(run, model=run.model, precision="fp32")
    ours = ng.predict(mini.folder, ["A robin is a [MASK]."], threads=1)
    assert ours.equals(ng.predict(ng.load(mini.folder), ["A robin is a [MASK]."]))


def test_run_functions_export_a_model_for_their_task_on_first_use(exports, small_lexicon, capfd):
    for model in ("roberta-tiny", Path("roberta-tiny")):
        run = ng.select(model, pairs=2, max_verbs=1, lexicon=small_lexicon, output="run", progress=False)
        assert run.model_name == "mini"
        assert ng.predict(model, ["She is [MASK]."], top=1)["rank"].to_list() == [1]
    assert [reference for reference, _ in exports] == ["roberta-tiny"]
    assert capfd.readouterr() == ("", "")
    Path("text.txt").write_text("He is not here.\n")
    with pytest.raises(ng.InputError, match="is exported for fill-mask, this command needs token-classification"):
        ng.cues("bert-tiny", "text.txt")
    assert exports[1][1]["task"] == "token-classification"


def test_without_the_exporter_the_command_is_said(tmp_path, monkeypatch, no_exporter):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ng.InputError) as caught:
        ng.select("roberta-tiny")
    said = f"an export of roberta-tiny needs torch: pip install {requirement('export')}"
    assert str(caught.value) == said


def test_runs_are_frames_tables_and_pages_of_a_notebook(selected_run, scored_run, tmp_path):
    run, scores = ng.open(selected_run), ng.open(scored_run)
    assert run.triplets.columns == ["triplet", "name", "gender", "pronoun", "profession", "verb"]
    assert "6. Selected triplets" in str(run)
    assert len(scores.items) == 5 * len(run.triplets)
    assert "CpTn" in str(scores)
    assert scores._repr_html_().count("<table") == 2
    with pytest.raises(ng.InputError, match="nowhere is not a run folder"):
        ng.open(tmp_path / "nowhere")


def test_the_tokens_of_each_text_are_rows_also_of_a_model_that_a_thread_opens(mini):
    """It opens the graph that opens fastest."""
    texts = ["She is happy to [MASK].", "He is a [MASK]."]
    frame = ng.predict(ng.load(mini.folder, device="cpu"), texts, top=3)
    assert frame.columns == ["text", "rank", "token", "logit", "probability"]
    assert frame["text"].to_list() == [text for text in texts for _ in range(3)]
    assert frame["rank"].to_list() == [1, 2, 3, 1, 2, 3]
    assert all(own["probability"].is_sorted(descending=True) for _, own in frame.group_by("text"))
    opening = ng.load(mini.folder, device="cpu").begun()
    assert opening.reference.graph.name == GRAPH
    ahead = ng.predict(opening, texts, top=3)
    assert ahead["token"].to_list() == frame["token"].to_list()
    odd = [f" {texts[0]}", texts[1].replace(" [", "  ["), f"{texts[1]}\n"]
    assert ng.predict(opening, odd, top=3).drop("text").equals(ahead[[0, 1, 2, 3, 4, 5, 3, 4, 5]].drop("text"))
    assert Predictions(frame, odd).remarks() == [
        "white space at the ends is not read in 2 texts",
        "white space before [MASK] is read as one space in 1 text",
    ]
    assert Predictions(
        frame, ["Cafe\u0301 [MASK]", "Caf\u00e9 [MASK]", "\u0928\u0939\u0940\u0902 [MASK]"]
    ).remarks() == ["letters that are not composed (NFC) are read as they stand in 1 text"]
    assert not Predictions(frame, texts).remarks()
    assert ng.predict(opening, texts[0], top=3).equals(ahead[:3])
    with pytest.raises(ng.InputError, match=r"None is not a text; give a list of texts"):
        ng.predict(opening, [None])
    assert ahead["logit"].to_list() == pytest.approx(frame["logit"].to_list(), abs=1e-3)
