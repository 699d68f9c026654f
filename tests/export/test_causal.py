"""What is special to an export of a causal model: shared beginnings, the longest text, BOS."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from causal_checkpoints import write_causal
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.exported import load_exported
from negengine.export import checkpoint as reading
from negengine.export import families, needs
from negengine.export.build import _Traced, _without_wrong_sharing, build
from negengine.export.families import longest_input
from negengine.export.graph import Graph
from negengine.export.samples import Sample


@pytest.mark.parametrize("right", [True, False])
def test_graphs_that_share_beginnings_wrongly_are_left_out(right, causal, tmp_path):
    exported = causal("llama")
    folder = Path(shutil.copytree(exported.folder, tmp_path / "llama"))
    ids = np.random.default_rng(0).integers(5, exported.vocab_size, (4, 9)).astype(np.int32)
    logits = CausalLM(exported).logits(ids, np.full(4, 8, np.int32))  # of the row before
    samples = [Sample(row, 7) for row in ids]
    said = []
    files = _without_wrong_sharing(
        sorted(folder.iterdir()),
        ["model.prefix.onnx", "model.cpu.prefix.onnx"],
        _Traced(Graph.open(folder / "model.onnx"), samples, logits if right else logits + 1, {}, 0),
        said.append,
    )
    assert sorted(folder.iterdir()) == files
    assert sum("prefix" in path.name for path in files) == (3 if right else 0)
    assert len(said) == (0 if right else 1)


def test_the_longest_input_is_compared_with_pytorch(monkeypatch, tmp_path):
    """As if the rule for LongRoPE were missing: its second table begins beyond all other samples."""
    checkpoint = write_causal(
        tmp_path / "phi", "phi3", max_position_embeddings=1100, original_max_position_embeddings=600
    )
    monkeypatch.setattr(families, "longest_of", lambda config, is_causal: longest_input(config))
    monkeypatch.setattr(reading, "longest_of", families.longest_of)
    with pytest.raises(InputError, match=r"disagree.* on an input of 1100 tokens"):
        build(str(checkpoint), tmp_path / "out")


def test_an_input_that_memory_does_not_suffice_to_compare_is_refused(monkeypatch, tmp_path):
    checkpoint = write_causal(tmp_path / "llama", "llama", max_position_embeddings=3000)
    monkeypatch.setattr(needs, "free_memory", lambda: 1e9)
    said = []
    exported = load_exported(build(str(checkpoint), tmp_path / "out", say=said.append))
    assert exported.max_length == 750
    assert "memory suffices to compare inputs of 750 tokens: longer ones will be refused" in said


def test_a_bos_token_is_added_on_request(causal, causal_checkpoint, tmp_path):
    exported = load_exported(build(str(causal_checkpoint("gpt2")), tmp_path / "bos", bos=True))
    assert [ids.tolist()[0] for ids in exported.tokenizer.encode(["a dancer", "[MASK]"])] == [0, 0]
    assert exported.sha256 != causal("gpt2").sha256
    assert build(str(causal_checkpoint("gpt2")), tmp_path / "bos", bos=True) == tmp_path / "bos"  # it is up to date
    assert exported.begins_with_added_bos
    assert not causal("gpt2").begins_with_added_bos
