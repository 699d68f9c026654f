"""Every family, exported and run by the engine, gives what PyTorch gives on the same sentence; or is refused."""

import json
import shutil
from pathlib import Path

import causal_checkpoints
import classifier_checkpoints
import numpy as np
import pytest
import torch
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import ExportedModel, load_exported
from negengine.engine.inference.model import MaskedLM
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.export.build import build
from negengine.export.check import check, kind_of
from negengine.export.families import FAMILIES, Family, family_of
from optimum.exporters.tasks import TasksManager
from safetensors.torch import load_file
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    FNetConfig,
    FNetForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LongformerConfig,
    LongformerForMaskedLM,
    NystromformerConfig,
    NystromformerForMaskedLM,
    PerceiverConfig,
    PerceiverForMaskedLM,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

from .families import ROWS, SIZES
from .tokenizer_files import tokenizer_json

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


def sentences(tokenizer):
    lexicon = load_lexicon()
    for i, pattern in enumerate(load_patterns().all):
        for j in range(3):
            fillers = {
                "NAME": lexicon.names[31 * j + i],
                "PROF": lexicon.professions[13 * j + i],
                "ACT": lexicon.verbs[201 * j + i],
                "PRON": "she" if lexicon.genders[31 * j + i] == "f" else "he",
            }
            (ids,) = tokenizer.encode([pattern.text(fillers, tokenizer.mask_token)])
            yield ids[:128]
    random = np.random.default_rng(5)
    for length in (3, 40, 128):  # 128 is the longest that all the tiny models take
        ids = random.integers(5, tokenizer.vocab_size - 1, length).astype(np.int32)  # the last one is the mask
        ids[(ids == tokenizer.mask_id) | (ids == tokenizer.backend.token_to_id("[PAD]"))] = 5
        ids[length // 3] = tokenizer.mask_id
        yield ids


@pytest.mark.parametrize("family", few(ROWS, "bert", "roberta", "mpnet", "modernbert"))
def test_engine_equals_pytorch_sentence_by_sentence(family, checkpoint, exported):
    model = load_exported(exported(family))
    engine = MaskedLM(model)
    reference = AutoModelForMaskedLM.from_pretrained(checkpoint(family), dtype=torch.float32).eval()
    assert reference.config.model_type == ROWS[family].family
    tokenizer = MaskTokenizer.load(model.folder, model.mask_token)
    expected = np.array([7], np.int32)
    compared = 0
    for ids in sentences(tokenizer):
        (masks,) = np.nonzero(ids == tokenizer.mask_id)
        if len(masks) == 0:
            continue
        position = masks[:1].astype(np.int32)
        with torch.inference_mode():
            wanted = reference(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0, position[0]].numpy()
        decision = engine.decide(ids[None], position, expected)
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(engine.logits(ids[None], position)[0], wanted, atol=2e-5 * scale, rtol=0)
        assert decision.top1[0] == wanted.argmax()
        assert decision.expected_rank[0] == 1 + (wanted > wanted[7]).sum()
        own = [np.sort(wanted)[-1], np.sort(wanted)[-2], wanted[7], torch.logsumexp(torch.from_numpy(wanted), 0).item()]
        np.testing.assert_allclose(decision.logits[0], own, atol=2e-5 * scale, rtol=0)
        compared += 1
    assert compared > 15


@pytest.mark.parametrize("family", few(ROWS, "bert", "roberta", "mpnet", "modernbert"))
def test_attention_is_fused_in_every_layer_where_an_operator_for_it_exists(family, exported):
    assert load_exported(exported(family)).info["fused"]["attention"] == ROWS[family].attentions


@pytest.mark.parametrize("family", few(ROWS, "bert", "roberta", "mpnet", "modernbert"))
def test_hoisting_saves_most_of_the_last_layer_and_of_the_vocabulary_projection(family, exported):
    flops = load_exported(exported(family)).info["flops"]
    assert flops["hoisted"] < 0.85 * flops["optimum"]


def test_a_decoder_is_refused_as_a_masked_language_model(tmp_path):
    GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=11)).save_pretrained(tmp_path / "gpt")
    with pytest.raises(InputError, match="gpt2 model, which has no masked-LM head"):
        build(str(tmp_path / "gpt"), tmp_path / "out", task="fill-mask")
    assert not (tmp_path / "out").exists()


def test_a_family_that_optimum_does_not_know_is_refused_by_name(tmp_path):
    tokenizer_json(tmp_path / "fnet", "fnet")
    FNetForMaskedLM(FNetConfig(vocab_size=200, hidden_size=16, num_hidden_layers=1)).save_pretrained(tmp_path / "fnet")
    with pytest.raises(InputError, match=r"fnet: Optimum has no fill-mask export for the family fnet"):
        build(str(tmp_path / "fnet"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


SHALLOW = SIZES | {"num_hidden_layers": 1}
UNSUITABLE = {
    # Traced with 16 tokens, it pads to a multiple of its window, and knows no other length after that.
    "longformer": (
        LongformerForMaskedLM,
        LongformerConfig(vocab_size=200, max_position_embeddings=130, attention_window=16, **SHALLOW),
        "longformer cannot be exported: running the graph on input of shape .* failed",
    ),
    "nystromformer": (
        NystromformerForMaskedLM,
        NystromformerConfig(vocab_size=200, max_position_embeddings=130, num_landmarks=8, **SHALLOW),
        "nystromformer cannot be exported: running it in PyTorch on .* tokens failed",
    ),
    "perceiver": (
        PerceiverForMaskedLM,
        PerceiverConfig(
            vocab_size=200, max_position_embeddings=130, d_model=64, d_latents=48, num_latents=8, num_blocks=1,
            num_self_attends_per_block=1,
        ),
        "perceiver cannot be exported: it has no .*",
    ),
}  # fmt: skip


@pytest.fixture
def unsuitable(tmp_path):
    def save(family: str) -> str:
        make, config, _ = UNSUITABLE[family]
        tokenizer_json(tmp_path / family, family)
        make(config).save_pretrained(tmp_path / family)
        return str(tmp_path / family)

    return save


@pytest.mark.parametrize("family", UNSUITABLE)
def test_a_family_that_is_known_to_fail_is_refused_before_its_weights_are_read(family, tmp_path, unsuitable):
    with pytest.raises(InputError, match=rf"^{family}: the family {family} cannot be exported: "):
        build(unsuitable(family), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.everything
@pytest.mark.parametrize("family", ["longformer", "nystromformer"])
def test_what_a_library_cannot_run_is_told_in_one_line(family, tmp_path, unsuitable, monkeypatch):
    """Without the entries that refuse them: the day on which one of them works, this fails, and its entry can go."""
    monkeypatch.setitem(FAMILIES, family, Family(first_position=2))
    with pytest.raises(InputError, match=UNSUITABLE[family][-1]) as caught:
        build(unsuitable(family), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.everything
def test_a_deberta_with_the_head_of_its_authors_is_exported_with_that_head(checkpoint, tmp_path):
    """As microsoft/deberta-base: weights named lm_predictions, and a configuration that does not say so."""
    shutil.copytree(checkpoint("deberta-v3"), tmp_path / "authors")
    config = tmp_path / "authors" / "config.json"
    said = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps(said | {"legacy": True, "tie_word_embeddings": True}), "utf-8")
    weights = load_file(tmp_path / "authors" / "model.safetensors")
    assert any(name.startswith("lm_predictions.") for name in weights)
    assert check(str(tmp_path / "authors")).possible
    assert load_exported(build(str(tmp_path / "authors"), tmp_path / "out")).info["parity"]["top1_agreement"] == 1


# ---------------------------------------------------------------- the table in the documents


def table_line(name: str, positions: str, notes: str, head: str, checkpoint: Path, exported: ExportedModel) -> str:
    """A row of the table, from what was exported."""
    config = AutoConfig.from_pretrained(checkpoint)
    kind = kind_of(AutoTokenizer.from_pretrained(checkpoint))
    kind = f"SentencePiece {kind}" if list(checkpoint.glob("*.model")) else kind
    first = family_of(config).first_position
    counted = f", from {'the one after the padding id' if isinstance(first, str) else first}" if first else ""
    fixed = family_of(config).padding_id
    padding = "from the configuration" if fixed is None else f"{fixed}, fixed"
    cells = (
        f"`{name}`",
        f"`{head}`",
        exported.task,
        kind,
        positions + counted,
        "none" if exported.is_causal else padding,
        attention_of(exported),
        precisions_of(exported),
        notes,
    )
    return f"| {' | '.join(cells)} |"


def attention_of(exported: ExportedModel) -> str:
    return "one operator" if exported.info["fused"]["attention"] else "plain operators"


def precisions_of(exported: ExportedModel) -> str:
    written = [word for word in ("int8", "fp16") if (exported.folder / f"model.{word}.onnx").is_file()]
    return ", ".join(["fp32", *written])


@pytest.mark.parametrize("family", few(ROWS, "bert", "roberta", "mpnet", "modernbert"))
def test_the_table_of_families_says_what_was_exported(family, checkpoint, exported):
    row, found = ROWS[family], load_exported(exported(family))
    head = MODEL_FOR_MASKED_LM_MAPPING[CONFIG_MAPPING[row.family]].__name__
    line = table_line(family, row.positions, row.notes, head, checkpoint(family), found)
    assert line in PAGE.read_text("utf-8").splitlines()


CAUSAL = {
    "gpt2": ("learned", ""),
    "opt": ("learned", "A text begins with `</s>`."),
    "gpt_neox": ("rotary", "Pythia."),
    "llama": ("rotary", ""),
    "mistral": ("rotary", "No text is longer than its window."),
    "qwen2": ("rotary", ""),
    "phi3": ("rotary", "With LongRoPE, no text is longer than its `original_max_position_embeddings`."),
    "bloom": ("relative", "A bias that grows with the distance of two tokens."),
}


@pytest.mark.parametrize("family", few(causal_checkpoints.FAMILIES, "gpt2", "llama"))
def test_the_table_has_the_causal_families(family, causal, causal_checkpoint):
    positions, notes = CAUSAL[family]
    head = MODEL_FOR_CAUSAL_LM_MAPPING[causal_checkpoints.FAMILIES[family].config].__name__
    line = table_line(family, positions, notes, head, causal_checkpoint(family), causal(family))
    assert line in PAGE.read_text("utf-8").splitlines()


CLASSIFIERS = {
    **{
        (family, task): ""
        for family in classifier_checkpoints.FAMILIES
        for task in ("text-classification", "token-classification")
    },
    ("xlnet", "text-classification"): "Padded at the left. The last token is in a third segment.",
}


@pytest.mark.everything
@pytest.mark.parametrize(("family", "task"), CLASSIFIERS)
def test_the_table_has_the_families_of_classifiers(family, task, classifier):
    _, exported = classifier(task, family)
    segments = "yes" if exported.info.get("segments") else "no"
    cells = f"`{family}`", task, segments, attention_of(exported), precisions_of(exported), CLASSIFIERS[family, task]
    assert f"| {' | '.join(cells)} |" in PAGE.read_text("utf-8").splitlines()


def test_the_table_has_every_family_that_optimum_exports_and_no_other():
    listed = {line.split("`")[1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")}
    known = TasksManager._SUPPORTED_MODEL_TYPE
    exporting = {family for family, by in known.items() if "fill-mask" in by.get("onnx", ())}
    assert {row.family for row in ROWS.values()} | set(UNSUITABLE) == exporting
    assert listed == {*ROWS, *UNSUITABLE, *CAUSAL, *(family for family, _ in CLASSIFIERS)}


@pytest.mark.parametrize("family", UNSUITABLE)
def test_the_table_says_why_a_family_is_refused(family, unsuitable):
    verdict = check(unsuitable(family))
    (reason,) = [found.said for found in verdict.findings if found.what == "family"]
    (line,) = [line for line in PAGE.read_text("utf-8").splitlines() if f"| `{family}` | refused" in line]
    assert not verdict.possible
    assert reason.partition("exported: ")[2].rpartition(", ")[2] in line
