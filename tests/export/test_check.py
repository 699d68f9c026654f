"""`negengine export --check` says whether and why, without building; of the hub it fetches small files alone."""

import json
import sys

import pytest
import torch
from hub_here import serve
from negengine.engine.cli import main
from negengine.export import check as checking
from negengine.export.check import check
from safetensors.torch import load_file
from transformers import BertConfig, BertModel


def against(verdict) -> dict[str, str]:
    """What stands against an export."""
    return {finding.what: finding.said for finding in verdict.findings if not finding.possible}


def test_the_lines_say_what_was_found(checkpoint):
    first, *lines = check(str(checkpoint("roberta"))).lines()
    found = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert first == "checkpoint-roberta can be exported for fill-mask"
    assert found["family"] == "roberta; one fused operator computes its attention"
    assert found["input"] == "at most 128 tokens, as positions count from 2"
    assert found["head"] == "RobertaForMaskedLM, whose weights are all there"
    assert found["tokenizer"].startswith("byte-level BPE, ")
    assert found["tokenizer"].endswith(", mask <mask> (329)")
    assert found["weights"] == "safetensors, 0.00 GB"
    assert found["needs"].startswith("about 0.9 GB of memory and 0.0 GB of disk; ")


def test_all_that_stands_against_an_export_is_said_at_once(copy):
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "fnet"}), "utf-8")
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    (copy / "tokenizer.json").write_text("{}")
    found = against(check(str(copy)))
    assert found["family"].startswith("Optimum has no fill-mask export for the family fnet (tried: optimum-onnx ")
    assert "tokenizer" in found
    assert found["weights"].startswith("it has no safetensors weights; --allow-pickle reads pickled ones")
    assert "weights" not in against(check(str(copy), allow_pickle=True))


def changed(copy, name, **content):
    known = json.loads((copy / name).read_text("utf-8"))
    (copy / name).write_text(json.dumps({**known, **content}), "utf-8")


AGAINST = [  # what is done to the checkpoint, what is looked at, what is said against it
    (
        lambda copy: BertModel(BertConfig.from_pretrained(copy)).save_pretrained(copy),
        *("head", "the weights lack cls.predictions.bias: the model is not a masked language model"),
    ),
    (
        lambda copy: (copy / "model.safetensors").unlink(),
        *("weights", "there are no files of weights (model.safetensors)"),
    ),
    (
        lambda copy: [
            changed(copy, f"{name}.json", mask_token=None) for name in ("special_tokens_map", "tokenizer_config")
        ],
        *("tokenizer", "its tokenizer has no mask token: a masked language model is needed"),
    ),
    (lambda copy: changed(copy, "config.json", vocab_size=60), "tokenizer", "it gives token "),
    (
        lambda copy: changed(copy, "config.json", num_hidden_layers=10**9),
        *("input", "config.json says num_hidden_layers 1000000000"),
    ),
]


@pytest.mark.parametrize(("change", "what", "said"), AGAINST, ids=range(len(AGAINST)))
def test_what_stands_against_an_export(change, what, said, copy):
    change(copy)
    found = check(str(copy))
    assert against(found).keys() == {what}
    assert against(found)[what].startswith(said)
    assert (what == "input") is ("head" not in {finding.what for finding in found.findings})  # no model is made


def test_too_little_memory(copy, monkeypatch):
    monkeypatch.setattr(checking.needs, "free_memory", lambda: 0.5e9)
    assert "only 0.5 GB of memory are free" in against(check(str(copy)))["needs"]


def status(monkeypatch, *arguments) -> int:
    monkeypatch.setattr(sys, "argv", ["negengine", "export", "--check", *map(str, arguments)])
    return main.run()


def test_the_command_ends_with_0_or_2_and_writes_nothing(copy, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert status(monkeypatch, copy) == 0
    assert capsys.readouterr().out.startswith("tiny can be exported for fill-mask\n  family ")
    assert status(monkeypatch, copy, "--task", "text-classification", "--json") == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["possible"]) == ("tiny", False)
    assert [item["what"] for item in said["findings"]] == ["family", "input", "head", "tokenizer", "weights", "needs"]
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


CHECK = """
import json, sys
from negengine.export.check import check
print(json.dumps(check(sys.argv[1]).document()))
"""


def test_of_the_hub_the_weights_are_not_fetched(checkpoint, from_hub):
    with serve({"lab/tiny": checkpoint("bert")}) as hub:
        (line,) = from_hub(CHECK, hub.address, "lab/tiny")
    found = {item["what"]: item["said"] for item in json.loads(line)["findings"]}
    assert json.loads(line)["possible"]
    assert found["head"] == "BertForMaskedLM (the weights are not here to look at)"
    assert found["weights"].startswith("safetensors, 0.")
    assert not [path for path in hub.asked if path.endswith(".safetensors")]
    assert [path for path in hub.asked if path.endswith("/config.json")]
