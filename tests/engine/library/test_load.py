"""`ng.load`: what is exported is found, everything else is exported on first use."""

import shutil
from pathlib import Path

import negengine as ng
import pytest
from negengine.engine.library import model as loading

EXPORT = loading.export


@pytest.fixture
def exports(monkeypatch, mini):
    """The exporter's calls; it copies an export that is there, as a real one takes long."""
    calls = []

    def export(reference, output=None, **options):
        calls.append((reference, options))
        shutil.copytree(mini.folder, Path("models") / reference)
        return Path("models") / reference

    monkeypatch.setattr(loading, "export", export)
    return calls


def test_a_model_is_exported_on_first_use_and_found_on_the_second(exports, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ng.load("mini").name == "mini"
    model = ng.load("mini", device="cpu,cpu")
    given = {"task": None, "base": None, "revision": None, "allow_pickle": False, "progress": True}
    assert exports == [("mini", given)]
    assert ng.load(model) is model
    assert repr(model) == "Model('mini' on cpu, cpu, precision auto)"


def test_wrong_options_are_refused_before_an_export(exports):
    refused = {
        "--precision int8: give auto, fp32, mixed": {"precision": "int8"},
        "--device gpu": {"device": "gpu"},
        "--threads 0: give a number from 1 to 1,024": {"threads": 0},
        "--batch-tokens 8: give a number from 16 to 1,048,576": {"batch_tokens": 8},
    }
    for said, options in refused.items():
        with pytest.raises(ng.InputError, match=said):
            ng.load("mini", **options)
    assert exports == []


def test_run_functions_export_a_model_for_their_task_on_first_use(exports, tmp_path, monkeypatch, small_lexicon):
    monkeypatch.chdir(tmp_path)
    for model in ("roberta-tiny", Path("roberta-tiny")):
        run = ng.select(model, pairs=2, max_verbs=1, lexicon=small_lexicon, output="run", progress=False)
        assert run.model_name == "mini"
        assert ng.predict(model, ["She is [MASK]."], top=1)["rank"].to_list() == [1]
    assert [reference for reference, _ in exports] == ["roberta-tiny"]
    with pytest.raises(ng.InputError, match="is exported for fill-mask, this command needs text-classification"):
        ng.nli("bert-tiny")
    assert exports[1][1]["task"] == "text-classification"
    with pytest.raises(ng.InputError, match="chess is not a task of the export: give fill-mask"):
        EXPORT("mini", tmp_path / "out", task="chess")


def test_without_the_exporter_the_command_is_said(tmp_path, monkeypatch, no_exporter):
    monkeypatch.chdir(tmp_path)
    said = r"^roberta-tiny is not exported, and export needs torch: pip install 'negengine\[export\]'$"
    with pytest.raises(ng.InputError, match=said):
        ng.select("roberta-tiny")
