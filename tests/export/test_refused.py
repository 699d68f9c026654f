"""What cannot be exported is refused in one line, and nothing is left behind, whatever a checkpoint holds."""

import shutil
from pathlib import Path

import pytest
from negengine.engine.basics.errors import InputError
from negengine.export import build as building
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.tasks import TASKS
from negengine.export.training.base import Base

from .situations import OF_TOKENIZER, PAIRS, TOKENS, changed, pickled


def refused(reference, folder, match, **options):
    with pytest.raises(InputError, match=match):
        build(str(reference), folder, **options)
    assert not folder.exists()
    assert not list(folder.parent.glob(f".{folder.name}.*"))


def test_pickled_weights_are_read_where_they_are_allowed(copy, tmp_path):
    pickled(copy)
    assert check(str(copy), allow_pickle=True).possible
    assert (build(str(copy), tmp_path / "out", allow_pickle=True) / "model.onnx").is_file()


def test_a_token_that_is_added_before_each_text_is_for_causal_models(tmp_path):
    refused("mini", tmp_path / "out", "--bos is for causal models; mini is exported for fill-mask", bos=True)


@pytest.mark.parametrize("task", ["fill-mask", PAIRS, TOKENS])
def test_a_graph_that_disagrees_with_pytorch_is_not_published(task, copy, classifier, tmp_path, monkeypatch):
    checkpoint, reference = copy if task == "fill-mask" else classifier(task, "bert")[0], building.reference_of

    def off(*given, **options):
        found = reference(*given, **options)
        found.logits[-1, 0] += 0.5
        return found

    monkeypatch.setattr(building, "reference_of", off)
    refused(checkpoint, tmp_path / "out", r"the exported graph disagrees with PyTorch: \|Δlogit\| 0.5", task=task)


def test_code_of_a_checkpoint_is_never_run_and_nobody_is_asked(copy, tmp_path, monkeypatch):
    mapped, told = {"AutoConfig": "configuration_mine.Mine", "AutoModelForMaskedLM": "modeling_mine.Mine"}, []
    for name in ("configuration_mine.py", "modeling_mine.py", "tokenization_mine.py"):
        (copy / name).write_text("raise AssertionError('the code of the checkpoint was run')")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question on the terminal"))
    changed(copy, auto_map=mapped)  # of a model that transformers knows
    ignored = "its own code (auto_map) is not run: this is transformers' bert model with its weights"
    verdict = check(str(copy))
    assert (verdict.possible, verdict.findings[0].said.endswith(ignored)) == (True, True)
    build(str(copy), tmp_path / "known", say=told.append)
    assert told[0] == f"tiny: {ignored}"
    own = {"AutoTokenizer": [None, "tokenization_mine.Mine"]}
    changed(copy, OF_TOKENIZER, tokenizer_class="Mine", auto_map=own)
    build(str(copy), tmp_path / "words")  # by its tokenizer.json
    changed(copy, model_type="mine")
    said = r"^tiny needs code of its own \(auto_map\), which negengine never runs; a newer transformers may know it$"
    refused(copy, tmp_path / "out", said)
    with pytest.raises(InputError, match=said):
        Base.find(str(copy), TASKS["text-classification"].head, ("yes", "no"))
    with pytest.raises(InputError, match=said):
        check(str(copy))


def test_a_folder_that_is_not_this_tasks_export_is_not_overwritten(copy, classifier, exported, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="mine exists and is not an exported model"):
        build(str(copy), tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    shutil.copytree(exported("bert"), tmp_path / "other")
    with pytest.raises(InputError, match=r"was exported for fill-mask: give another --output"):
        build(str(classifier(PAIRS, "bert")[0]), tmp_path / "other", task=PAIRS)
    with pytest.raises(InputError, match=r"'a:b' is not a name for a model: rename the checkpoint's folder"):
        build(str(copy.rename(copy.with_name("a:b"))))
    assert not Path("models/a:b").exists()
