"""Three tiny models and what they are asked on each device, by `tests/stand_in/on_device.py`, and how runs compare."""

import json
from pathlib import Path

import numpy as np
import polars as pl
from negengine.engine.library import model as loading

SCRIPT = Path(__file__).parents[2] / "stand_in" / "on_device.py"
NAMES = "Alice Amanda Amy Angela James John Robert Michael"
TEXT = "is a an who likes to dancer architect doctor She He happy isn doesn like not very really . ' t , in the city of"
VERBS = "smoke dance sing swim walk argue sleep hunt dig laugh agree cook run eat drink read write speak drive ride"
VOCABULARY = [*TEXT.split(), *NAMES.split(), *VERBS.split()]


def write_inputs(folder):
    """The models, the word lists and the data, in a folder."""
    import torch
    from causal_checkpoints import write_causal
    from tiny_checkpoints import WORDS, random_model, save, save_classifier, word_tokenizer
    from transformers import AutoModelForMaskedLM, BertConfig

    random = np.random.default_rng(0)
    words = word_tokenizer(VOCABULARY)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    masked = random_model(AutoModelForMaskedLM, BertConfig(vocab_size=len(words), max_position_embeddings=40, **sizes))
    with torch.no_grad():
        masked.cls.predictions.bias[words("smoke dance sing")["input_ids"][1:-1]] += 2.0
    save(folder / "of" / "masked", masked, words)
    write_causal(folder / "of" / "causal", "gpt2", "smoke", n_layer=1)
    save_classifier(folder / "of" / "pairs", "bert", ("not_entailment", "entailment"), num_hidden_layers=1)
    for name in ("masked", "causal", "pairs"):
        loading.export(str(folder / "of" / name), folder / name, progress=False)
    lists = {"names_female": NAMES.split()[:4], "names_male": NAMES.split()[4:], "verbs": VERBS.split()}
    lists["professions"] = ["a dancer", "an architect", "a really happy dancer"]
    (folder / "lexicon").mkdir()
    for name, content in lists.items():
        (folder / "lexicon" / f"{name}.txt").write_text("".join(f"{line}\n" for line in content))
    for name, (first, second) in {"RTE.txt": ("Text", "Hypothesis"), "dev.tsv": ("sentence1", "sentence2")}.items():
        texts = [[" ".join(random.choice(WORDS, 5)) for _ in range(2)] for _ in range(30)]
        # In a triple, the first and the last pair share the text, the last two the hypothesis.
        pairs = [(texts[i - 2 * (i % 3 == 2)][0], texts[i - (i % 3 == 2)][1]) for i in range(len(texts))]
        rows = [f"{i}\t{one}\t{two}\tentailment\r\n" for i, (one, two) in enumerate(pairs)]
        (folder / name).write_text(f"index\t{first}\t{second}\tgold_label\r\n" + "".join(rows))
    sentences = [f"{name} is a dancer who likes to {verb}." for name in NAMES.split() for verb in VERBS.split()[:3]]
    pairs = [{"sentence_good": own, "sentence_bad": own.replace("likes to", "to likes")} for own in sentences]
    pl.DataFrame(pairs).write_ndjson(folder / "minimal.jsonl")
    masks = [own.replace("likes to smoke", "likes to [MASK]") for own in sentences[::3]]
    pl.DataFrame({"sentence": masks}).with_columns(target=pl.lit("smoke")).write_ndjson(folder / "own.jsonl")
    facts = [
        {"relation": "likes", "sub_label": text[:5], "obj_label": "smoke", "masked_sentence": text,
         "masked_negation": text.replace("likes", "doesn ' t like")}
        for text in masks
    ]  # fmt: skip
    pl.DataFrame(facts).write_ndjson(folder / "SQuAD.jsonl")


def tables(folder, device):
    """Name → the frame of a result, and its bytes."""
    found = sorted((folder / device).rglob("*.parquet"))
    return {path.relative_to(folder / device): path for path in found if "parts" not in path.parts}


def calibrated(run):
    """What a selection has recorded of its precision."""
    return json.loads((run / "run.json").read_text())["stages"]["select"]["calibration"]["CpTp"]


def assert_same_decisions(folder, device, low_precision, tolerance):
    """Runs on a device decide as those on the CPU do; numbers of a low-precision model are within a tolerance."""
    whole, theirs, kinds, same = folder / device / "select", tables(folder, "cpu"), set(), set()
    for path, own in tables(folder, device).items():
        ours, exact = pl.read_parquet(own), pl.read_parquet(theirs.pop(path))
        floats = [name for name, kind in ours.schema.items() if kind.is_float()]
        assert ours.drop(*floats, "precision", strict=False).equals(exact.drop(*floats, "precision", strict=False))
        np.testing.assert_allclose(ours.select(floats).to_numpy(), exact.select(floats).to_numpy(), **tolerance)
        if "precision" in ours:
            kinds |= {*ours["precision"].cast(pl.String).drop_nulls()}
        if named := [name for name in ("triplets", "rates", "nli") if name in str(path)]:
            assert own.read_bytes() == (folder / "cpu" / path).read_bytes()
            same |= {*named}
    assert (kinds, same, theirs) == ({"fp32", low_precision}, {"triplets", "rates", "nli"}, {})
    for name in ("killed", "merged"):  # a run that was killed or divided is the whole one
        for file in ("triplets.parquet", "answers.parquet"):
            assert (whole.parent / name / file).read_bytes() == (whole / file).read_bytes()
    choice = calibrated(whole)
    assert (choice["precision"], choice["low_precision"]) == ("mixed", low_precision)
