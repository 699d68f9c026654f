"""Where a checkpoint is, on the disk or the hub; its licence; the memory and disk that its export needs; --check."""

import json
import re

import numpy as np
import pytest
from hub_here import serve
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.export import checkpoint_files, needs, weight_files
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.source import Source, locate
from safetensors.numpy import load_file, save_file

from .situations import QUERY, linear, save_adapter

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def hub(checkpoint):
    with serve({"lab/tiny": checkpoint("bert")}) as served:
        yield served


def test_a_model_of_the_hub_is_fetched_once_and_its_weights_only_to_export_it(hub, use_hub, tmp_path):
    use_hub(hub.address)
    verdict = check("lab/tiny")
    found = {finding.what: finding.said for finding in verdict.findings}
    assert (verdict.possible, verdict.name) == (True, "lab/tiny")
    assert found["head"] == "BertForMaskedLM, whose weights are all there"
    assert found["weights"].startswith("safetensors, 0.")
    size = (hub.folders["lab/tiny"] / "model.safetensors").stat().st_size
    (sent,) = [sent for path, sent in hub.sent.items() if path.endswith(".safetensors")]
    assert 0 < sent < size  # its header, by a range of bytes
    exported = load_exported(build("lab/tiny@v1", tmp_path / "out"))
    assert (exported.name, exported.revision) == ("lab/tiny@v1", "b" * 40)
    for revision, name in (("v1", "lab/tiny@v1"), ("b" * 40, f"lab/tiny@{'b' * 12}")):
        for source in (locate("lab/tiny", revision), locate(f"lab/tiny@{revision}")):
            assert (source.name, source.location, source.revision) == (name, "lab/tiny", "b" * 40)
    with pytest.raises(InputError, match="lab/tiny@v1 names a revision, and --revision v2 another"):
        locate("lab/tiny@v1", "v2")
    use_hub(NOWHERE, offline=True)
    assert locate("lab/tiny@v1").revision == "b" * 40


def test_an_adapter_takes_the_tokenizer_of_its_base_on_the_hub(hub, use_hub, tmp_path):
    use_hub(hub.address)
    save_adapter(tmp_path / "lora", linear(QUERY, 4, 4))
    found = {own.what: own for own in check(str(tmp_path / "lora"), base="lab/tiny").findings}["tokenizer"]
    plain = {own.what: own for own in check("lab/tiny").findings}["tokenizer"]
    assert found == plain
    assert plain.possible


@pytest.mark.parametrize(
    "change",
    [lambda own: own.pop("cls.predictions.bias"), lambda own: own.update(x=own["bert.embeddings.LayerNorm.bias"])],
)
def test_the_headers_on_the_hub_say_what_an_export_would_say(change, copy, use_hub, tmp_path):
    weights = load_file(copy / "model.safetensors")
    change(weights)
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with serve({"lab/half": copy}) as served:
        use_hub(served.address)
        (against,) = [finding for finding in check("lab/half").findings if not finding.possible]
        assert against.what == "head"
        with pytest.raises(InputError, match=re.escape(against.said)):
            build("lab/half", tmp_path / "out")


@pytest.mark.parametrize(
    ("wanted", "given", "said"),
    [
        ("lab/other", {}, "lab/other is neither a folder here nor a model on the hub"),
        ("lab/tiny@v9", {}, "lab/tiny has no revision 'v9' on the hub"),
        ("lab/tiny", {"address": NOWHERE}, "the hub was not reached: no connection"),
        ("lab/tiny", {"offline": True}, "offline mode is on (HF_HUB_OFFLINE)"),
    ],
)
def test_what_the_hub_does_not_give_is_told_in_one_line(wanted, given, said, hub, use_hub):
    use_hub(**{"address": hub.address, **given})
    told = []
    with pytest.raises(InputError, match=re.escape(said)):
        locate(wanted, say=told.append)
    asking = [] if given.get("offline") else [f"asking the Hugging Face hub for {wanted.partition('@')[0]}"]
    assert [line.partition(" (")[0] for line in told] == asking


def test_the_head_of_a_card_names_the_licence(tmp_path):
    source = Source("tiny", str(tmp_path), "", is_local=True, origin="")
    assert checkpoint_files.licence_of(source) is None
    for card, licence in {
        "---\nlicense: mit\ntags: [x]\n---\n# A model\n": "mit",
        "---\nlicense:\n- mit\n- cc-by-4.0\n---\n": "mit, cc-by-4.0",
        "# A model\nlicense: mit\n": None,
        "---\nlicense: [\n---\n": None,
        "---\n- license\n---\n": None,
    }.items():
        (tmp_path / "README.md").write_text(card)
        assert checkpoint_files.licence_of(source) == licence


def test_needs_follow_from_the_files_of_weights_and_too_little_is_refused(tmp_path, monkeypatch):
    def needed(factor, **weights):
        if weights:
            made = {name: np.zeros(shape, dtype) for name, (shape, dtype) in weights.items()}
            save_file(made, tmp_path / "model.safetensors")
        return needs.estimate(Source("t", str(tmp_path), "sha256:0", is_local=True, origin=str(tmp_path)), factor)

    def fail(*_, **__):
        raise OSError("no room")

    with pytest.raises(InputError, match=r"t has no files of weights \(model\.safetensors\)"):
        needed(1)
    small = needed(2, a=(1000, np.float32))
    large = needed(2, a=(1000, np.float32), b=(500, np.float32))
    assert (small.disk, large.disk) == (2 * 4000, 2 * 6000)
    assert large.memory > small.memory > 0
    (tmp_path / "pytorch_model.bin").write_bytes(b"0" * 9000)  # beside safetensors it does not count
    assert needed(1, a=(1000, np.float16), b=(10, np.float32)).disk == 4040  # fp16 counts twice
    monkeypatch.setattr(weight_files, "safe_open", fail)  # as where too many files are open
    with pytest.raises(InputError, match=r"safetensors: cannot be read \(no room\)"):
        needed(1)
    assert needs.free_memory() > 1e8
    assert needs.free_disk(tmp_path / "not" / "there") > 0
    said = "tiny needs about 7.0 GB of memory and 2.0 GB of disk, but only "
    for memory, disk, only in ((6e9, 9e9, "6.0 GB of memory"), (9e9, 1e9, "1.0 GB are free in ")):
        monkeypatch.setattr(needs, "free_memory", lambda free=memory: free)
        monkeypatch.setattr(needs, "free_disk", lambda _, free=disk: free)
        with pytest.raises(InputError, match=said + only):
            needs.Needs(7e9, 2e9).check("tiny", tmp_path)


LINES = r"""tiny can be exported for fill-mask
  family +bert; one fused operator computes its attention
  input +at most 130 tokens
  head +BertForMaskedLM, whose weights are all there
  tokenizer +WordPiece, .*, mask \[MASK\] \(\d+\)
  weights +safetensors, 0\.00 GB
  needs +about 0\.7 GB of memory and 0\.0 GB of disk; .*
"""


def test_all_that_stands_against_an_export_is_said_at_once_and_nothing_is_written(copy, command, tmp_path):
    done = command("export", "--check", copy)
    assert done.status == 0
    assert re.fullmatch(LINES, done.out)
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "longformer"}), "utf-8")
    (copy / "model.safetensors").unlink()
    (copy / "tokenizer.json").write_text("{}")
    done = command("export", "--check", copy, "--json")
    said = json.loads(done.out)
    assert done.status == 2
    assert (said["model"], said["possible"]) == ("tiny", False)
    against = {item["what"]: item["said"] for item in said["findings"] if not item["possible"]}
    assert against["family"].startswith("the family longformer cannot be exported: its windows of attention")
    assert {"tokenizer", "weights"} <= against.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]
