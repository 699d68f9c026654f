"""`negengine export --check` says whether and why, without building; of the hub it fetches small files alone."""

import json
import re
import sys

from hub_here import serve
from negengine.engine.cli import main
from negengine.export.check import check


def test_the_lines_say_what_was_found(checkpoint):
    assert re.fullmatch(
        r"""checkpoint-roberta can be exported for fill-mask
  family +roberta; one fused operator computes its attention
  input +at most 128 tokens, as positions count from 2
  head +RobertaForMaskedLM, whose weights are all there
  tokenizer +byte-level BPE, .*, mask <mask> \(329\)
  weights +safetensors, 0\.00 GB
  needs +about 0\.9 GB of memory and 0\.0 GB of disk; .*""",
        "\n".join(check(str(checkpoint("roberta"))).lines()),
    )


def test_all_that_stands_against_an_export_is_said_at_once_and_nothing_is_written(copy, capsys, monkeypatch, tmp_path):
    def status(*arguments) -> int:
        monkeypatch.setattr(sys, "argv", ["negengine", "export", "--check", str(copy), *arguments])
        return main.run()

    monkeypatch.chdir(tmp_path)
    assert status() == 0
    assert capsys.readouterr().out.startswith("tiny can be exported for fill-mask\n  family ")
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "longformer"}), "utf-8")
    (copy / "model.safetensors").unlink()
    (copy / "tokenizer.json").write_text("{}")
    assert status("--json") == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["possible"]) == ("tiny", False)
    against = {item["what"]: item["said"] for item in said["findings"] if not item["possible"]}
    assert against["family"].startswith("the family longformer cannot be exported: its windows of attention")
    assert {"tokenizer", "weights"} <= against.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_of_the_hub_the_weights_are_not_fetched(checkpoint, use_hub):
    with serve({"lab/tiny": checkpoint("bert")}) as hub:
        use_hub(hub.address)
        verdict = check("lab/tiny")
    found = {finding.what: finding.said for finding in verdict.findings}
    assert verdict.possible
    assert found["head"] == "BertForMaskedLM (the weights are not here to look at)"
    assert found["weights"].startswith("safetensors, 0.")
    assert not [path for path in hub.asked if path.endswith(".safetensors")]
    assert [path for path in hub.asked if path.endswith("/config.json")]
