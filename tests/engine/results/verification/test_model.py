"""An export against its own export.json, its graphs against each other, and against PyTorch."""

import json
import shutil

import negengine as ng
import pytest
from negengine.engine.basics.reading import file_sha256
from negengine.engine.inference.exported import read_manifest, write_manifest
from negengine.engine.results.verification.model import verify_model

from .conftest import damage


def verify(folder, **options):
    return ng.verify(folder, **{"sample": 0, **options})


def rewrite(folder, **values):
    """Write another export.json, with its digest."""
    _, info = read_manifest(folder)
    write_manifest(folder, {key: value for key, value in {**info, **values}.items() if key != "content_sha256"})


def test_an_export_has_no_damage_and_is_not_changed(exported):
    before = {path: path.stat().st_mtime_ns for path in exported.rglob("*")}
    found = verify(exported, sample=4, torch="mini")
    assert not found.damage
    with pytest.raises(ng.InputError, match="--model and --lexicon are for runs"):
        verify(exported, model="mini")
    assert {path: path.stat().st_mtime_ns for path in exported.rglob("*")} == before
    compared = [(check.of, check.what) for check in found.checks if check.what.startswith(("close", "equal"))]
    assert compared == [
        ("model.onnx", "equal to PyTorch within rounding"),
        ("model.cpu.onnx", "equal to model.onnx within rounding"),
        ("model.int8.onnx", "close to model.onnx"),
        ("model.fp16.onnx", "close to model.onnx"),
    ]
    # How close depends on the processor.
    assert sum("error of the margin: mean" in check.detail for check in found.checks) == 2


def test_a_flipped_bit_of_a_file_is_found_with_the_command_that_repairs_it(exported):
    for name in ("model.onnx", "model.onnx_data", "model.int8.onnx"):
        content = (exported / name).read_bytes()
        (exported / name).write_bytes(content[:-99] + bytes([content[-99] ^ 1]) + content[-98:])
        found = verify(exported)
        assert damage(found) == [(name, "the file is as it was written")]
        (exported / name).write_bytes(content)
    with pytest.raises(ng.InputError, match=f"negengine export mini --output {exported} --force$"):
        found.refuse_faults()
    path = exported / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ng.InputError, match=r"tokenizer\.json is damaged .* export it again with --force$"):
        verify(exported)


def test_what_export_json_says_is_compared_with_what_it_describes(exported):
    _, right = read_manifest(exported)
    lies = {
        "agrees with tokenizer.json": {"vocab_size": 900, "mask_token": "<mask>"},
        "agrees with config.json": {"vocab_size": 30_000, "padding_id": 7, "max_length": 600, "family": "roberta"},
    }
    for what, wrong in lies.items():
        for field, value in wrong.items():
            rewrite(exported, **{**right, field: value})
            assert ("export.json", what) in damage(verify(exported)), field
    # A number of logits on which both files agree, but not the graph.
    config = json.loads((exported / "config.json").read_text())
    (exported / "config.json").write_text(json.dumps({**config, "vocab_size": 30_000}))
    rewrite(exported, **right | {"vocab_size": 30_000})
    found = verify(exported)
    assert ("model.onnx", "inputs and outputs are those of export.json") in damage(found)
    assert "output logits has 12704 columns, export.json says 30000" in found.damage[0].detail


def test_a_graph_that_computes_something_else_is_found_though_its_digest_is_right(exported):
    for name, torch, by in (("model.cpu.onnx", None, "model.onnx"), ("model.onnx", "mini", "PyTorch")):
        shutil.copy(exported / "model.int8.onnx", exported / name)
        _, info = read_manifest(exported)
        rewrite(exported, files={**info["files"], name: file_sha256(exported / name)})
        assert (name, f"equal to {by} within rounding") in damage(verify(exported, sample=4, torch=torch))


def test_of_a_causal_model_the_log_probabilities_of_all_tokens_follow_from_the_logits(causal):
    checks = verify(causal("gpt2").folder, sample=4).checks
    assert not any(check.is_damage for check in checks)
    [told] = [(check.of, check.n) for check in checks if check.what == "log-probabilities follow from the logits"]
    assert told == ("model.vocabulary.onnx", 4)


def test_a_token_classifier_is_verified_but_for_its_labels(detector):
    checks = verify_model(detector, 5, 0, None).checks
    assert not any(check.is_damage for check in checks)
    [skipped] = [check.detail for check in checks if str(check.outcome) == "not checked"]
    assert skipped == "its labels were compared with PyTorch when it was exported"
