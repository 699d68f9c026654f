"""`doctor`, `data`, `patterns check`: what they show, and what they say to do."""

import json
import shutil
from importlib.metadata import PackageNotFoundError, metadata

import pytest
from negengine.engine.basics import versions
from negengine.engine.basics.versions import requirement
from negengine.engine.cli.doctor import diagnose
from negengine.engine.experiments.data_sets.sources import source, sources
from negengine.engine.inference.devices import cuda


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Versions of packages that are said to be installed; None is a missing package. There are two GPUs."""
    found = {"onnxruntime-gpu": "1.31.1"}

    def version(name):
        if name in found and found[name] is None:
            raise PackageNotFoundError(name)
        return found.get(name) or versions.distribution(name).version

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(versions, "version", version)
    monkeypatch.setattr(cuda.Cuda, "count", lambda: 2)
    monkeypatch.setattr(cuda.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(cuda, "cuda_memory", {0: 140 << 30, 1: None}.get)
    monkeypatch.setattr(cuda, "cuda_text", lambda _, index: None if index else "NVIDIA H200")
    monkeypatch.setattr(cuda, "driver_version", lambda: None)
    monkeypatch.setattr(cuda, "has_cudnn", lambda: True)
    return found


def test_doctor_tells_what_is_missing_or_too_much_and_what_to_do(command, installed):
    installed |= dict.fromkeys(["onnxruntime", "torch", "onnx"])
    found = diagnose()
    assert {*metadata("negengine").get_all("Provides-Extra")} - {"cpu", "gpu"} <= {*found}
    assert str(found["export"]) == f"torch, onnx missing: pip install {requirement('export')}"
    assert str(found["models"]) == "none: run `negengine export`"
    assert found["device auto"].said == "cuda:0"
    assert found["cuda"].said.startswith("cuda:0 (NVIDIA H200, 140.0 GiB, batches of at most 16,384 tokens); cuda:1 (")
    assert command("doctor").status == command("doctor", "docs", "cpu").status == 0
    done = command("doctor", "docs", "export", "--json")
    assert (done.status, json.loads(done.out)["export"]["state"]) == (1, "missing")
    said = f"negengine: exprot: did you mean 'export'? `negengine doctor` knows {', '.join(found)}"
    assert command("doctor", "exprot").said == said
    installed["onnxruntime-gpu"] = None  # no build at all: what imports it is not looked for
    done = command("doctor", "--json")
    found = json.loads(done.out)
    assert (done.status, found["onnxruntime"]["state"], found["cuda"]["state"]) == (1, "missing", "missing")


def test_doctor_tells_two_builds_of_onnx_runtime_an_old_version_and_the_way_of_exporting(installed):
    installed |= {"onnxruntime": "1.31.1", "polars": "1.0"}
    found = diagnose()
    assert "uninstall both" in found["onnxruntime"].repair
    assert found["negengine"].said == "polars<3,>=1.34 missing"
    assert found["export"].said.startswith("Optimum and PyTorch's exporter (optimum-onnx-naf ")
    installed |= {"transformers": "4.57.6"}
    assert diagnose()["export"].said == "transformers<6,>=5.14 missing"


def test_data_that_are_here_are_told_and_not_fetched_again(command, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))
    names = {row["name"]: row["here"] for row in json.loads(command("data", "list", "--json").out)}
    assert names == dict.fromkeys(sources(), False)
    folder = tmp_path / "data" / "lm-diagnostics"
    folder.mkdir(parents=True)
    for file in source("lm-diagnostics").files:
        shutil.copy(shared / "data" / "datasets" / "lm-diagnostics" / file, folder / file)
    (line,) = [line for line in command("data", "list").out.splitlines() if "lm-diagnostics" in line]
    assert "yes" in line
    done = command("data", "get", "lm-diagnostics")
    assert (done.status, done.out) == (0, f"{folder}\n")
    assert "licence: " in done.err


BROKEN = """
name = "own"

[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} is {PROF} who likes to {ACT}."
target = "{PRON} is an expert who can {MASK}."
"""
TWICE = BROKEN + BROKEN.partition("\n\n")[2].replace("CpTp", "CpTv").replace("selecting", "control")


def test_a_pattern_set_is_checked_and_ten_sentences_are_shown(command):
    done = command("patterns", "check", "italian")
    assert (done.status, done.err, "No problem was found." in done.out) == (0, "", True)
    shown = json.loads(command("patterns", "check", "french", "--json").out)
    assert (len(shown["sentences"]), shown["content"]["pairs"]) == (10, 18_200)


def test_a_sentence_twice_and_a_wrong_file_are_one_line_and_one_document(command, tmp_path):
    (tmp_path / "own.toml").write_text(TWICE)
    done = command("patterns", "check", "own.toml")
    assert (done.status, done.said) == (2, "negengine: own.toml:9: CpTv has the same sentence as CpTp")
    assert "Findings" in done.out
    (tmp_path / "own.toml").write_text(BROKEN.replace("{PRON}", "{PRO}"))
    done = command("patterns", "check", "own.toml")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("negengine: own.toml:8: unknown slot 'PRO'")
    done = command("verify", "nothing", "--json")
    assert (done.status, done.said) == (2, f"negengine: {json.loads(done.out)['error']}")
