"""What transformers 4 wrote is read as it was saved: tokens and logits are those of the model before it was saved.

transformers 4 cannot be installed beside 5. So a checkpoint is saved, and its files are brought into the form that 4.57
writes: its names of settings, its files of a tokenizer, its names of tensors.
"""

import json
from functools import partial

import causal_checkpoints
import pytest
import torch
import transformers as hf
from few import few
from negengine.engine.basics.errors import InputError
from negengine.export.checkpoint import load
from negengine.export.inventory import load_counted
from negengine.export.source import locate
from negengine.export.tasks import TASKS
from safetensors.torch import load_file, save_file
from tiny_checkpoints import LOADERS, OF_64_TOKENS, WORDS, labelled, random_model, save, word_tokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from .families import ROWS, save_tiny

TEXTS = ("Anna likes to smoke. She is happy to dance.", "12 are not 3,5", "ÉCOLE café naïve ﬁ ǅ \t two")
WEIGHTS = "model.safetensors"
DROPPED = ("backend", "is_local", "local_files_only")  # which transformers 5 writes beside a tokenizer
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def as_transformers_4_writes_it(folder):
    config = json.loads((folder / "config.json").read_text("utf-8"))
    rotations = config.pop("rope_parameters", None) or {}
    by_layer = {key: own for key, own in rotations.items() if isinstance(own, dict)}
    kind = config["model_type"]
    if kind.startswith("modernbert"):
        for layers, name in (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta")):
            config[name] = by_layer[layers]["rope_theta"]
        config |= {"global_attn_every_n_layers": 3, "reference_compile": False, "repad_logits_with_grad": False}
        config.pop("layer_types")
    elif rotations:
        own = next(iter(by_layer.values()), rotations)
        theta, part = own.pop("rope_theta"), own.pop("partial_rotary_factor", None)
        scaled = own["rope_type"] != "default"
        config |= {"rope_theta": theta, "rope_scaling": own if scaled else None}
        config |= {"partial_rotary_factor": part} if part else {}
        config |= {"rotary_pct": part, "rotary_emb_base": theta} if kind == "gpt_neox" else {}
    for key, usual in {"add_cross_attention": False, "is_decoder": False, "tie_word_embeddings": True}.items():
        if config.get(key) == usual:
            del config[key]
    if kind in {"albert", "bert", "camembert", "electra", "roberta", "xlm-roberta", "xmod"}:
        config["position_embedding_type"] = "absolute"
    if kind in {"flaubert", "xlm"}:
        config |= {"bos_index": 0, "eos_index": 1, "pad_index": config["pad_token_id"]}
    write(folder / "config.json", config | {"transformers_version": "4.57.6"})
    if (folder / "tokenizer_config.json").is_file():
        said = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        if said.get("tokenizer_class") == "TokenizersBackend":
            said |= {"tokenizer_class": "PreTrainedTokenizerFast", "extra_special_tokens": {}}
            write(folder / "special_tokens_map.json", {role: said[role] for role in ROLES if said.get(role)})
        write(folder / "tokenizer_config.json", {key: own for key, own in said.items() if key not in DROPPED})
    weights = load_file(folder / WEIGHTS)
    if kind == "luke":  # the head shares the word embeddings, and its bias has one name
        del weights["lm_head.decoder.weight"]
        weights["lm_head.bias"] = weights.pop("lm_head.decoder.bias")
    renamed = {name: name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in weights}
    save_file({renamed[name]: own.clone() for name, own in weights.items()}, folder / WEIGHTS, {"format": "pt"})


def write(path, content):
    path.write_text(json.dumps(content), "utf-8")


def assert_is_read(folder, task, model, tokens):
    """`model` is what was saved, and `tokens` gives the ids of a text that it was made for."""
    head = TASKS[task].head
    checkpoint = load(locate(str(folder)), head)
    found, _ = load_counted(checkpoint, head)
    for text in TEXTS:
        ids = checkpoint.tokenizer(text)["input_ids"]
        assert ids == tokens(text)
        with torch.inference_mode():
            wanted, own = (each(input_ids=torch.tensor([ids])).logits for each in (model, found))
        torch.testing.assert_close(own, wanted, atol=2e-6 * float(wanted.abs().max()), rtol=0)


@pytest.mark.parametrize("family", few(causal_checkpoints.FAMILIES, "olmo3", "phi3", "gpt_neox"))
def test_a_causal_model_of_transformers_4_is_read_as_it_was_saved(family, tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(
        causal_checkpoints, "random_model", lambda *given: saved.append(random_model(*given)) or saved[-1]
    )
    own = {"rope_parameters": ROTATIONS} if family == "olmo3" else {}
    folder = causal_checkpoints.write_causal(tmp_path / family, family, **own)
    as_transformers_4_writes_it(folder)
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    saved[0].set_attn_implementation("eager")
    assert_is_read(folder, "text-generation", saved[0], lambda text: backend.encode(text).ids)


ROTATIONS = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}


@pytest.mark.parametrize("family", few(ROWS, "luke", "esm", "modernbert", "flaubert"))
def test_a_masked_model_of_transformers_4_is_read_as_it_was_saved(family, tmp_path):
    save_tiny(ROWS[family], tmp_path / "own")
    if family == "luke":  # whose head shares the word embeddings
        weights = load_file(tmp_path / "own" / WEIGHTS)
        weights["lm_head.decoder.weight"] = weights["luke.embeddings.word_embeddings.weight"].clone()
        save_file(weights, tmp_path / "own" / WEIGHTS, {"format": "pt"})
    model = hf.AutoModelForMaskedLM.from_pretrained(tmp_path / "own", attn_implementation="eager").eval()
    before = load(locate(str(tmp_path / "own")), TASKS["fill-mask"].head).tokenizer
    as_transformers_4_writes_it(tmp_path / "own")
    assert_is_read(tmp_path / "own", "fill-mask", model, lambda text: before(text)["input_ids"])


# ---------------------------------------------------------------- tokenizers
SPECIAL = {"[CLS]": 2, "[SEP]": 3}
TEMPLATE = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1", "special_tokens": [*SPECIAL.items()]}


def unigram():
    """As the tokenizer.json of ALBERT, BigBird, DeBERTa v3 and RemBERT: pieces with scores, a normaliser of its own."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"▁{word}" for word in WORDS), "▁", *"abcdefghijklmn"]
    backend = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=1))
    backend.normalizer = normalizers.Sequence([normalizers.Replace("é", "e"), normalizers.Lowercase()])
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(**TEMPLATE)
    backend.add_special_tokens(pieces[:5])
    return backend


@pytest.mark.parametrize("named", ["AlbertTokenizer", "DebertaV2TokenizerFast", "RemBertTokenizer", "BigBirdTokenizer"])
def test_tokenizer_json_is_read_as_it_is(named, tmp_path):
    """Where transformers 5 takes the normaliser of its own class, loses the mask, or cannot build the class at all."""
    backend = unigram()
    model = random_model(hf.AutoModelForMaskedLM, hf.BertConfig(vocab_size=60, pad_token_id=0, **OF_64_TOKENS))
    model.save_pretrained(tmp_path)
    backend.save(str(tmp_path / "tokenizer.json"))
    roles = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]", "cls_token": "[CLS]"}
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": named, "sep_token": "[SEP]", **roles})
    found = load(locate(str(tmp_path)), TASKS["fill-mask"].head).tokenizer
    for text in (*TEXTS, "a thé dog , [MASK] walk", "  two\tpark\n"):
        assert found(text)["input_ids"] == backend.encode(text).ids
    assert found.get_vocab() == backend.get_vocab(with_added_tokens=True)


CLASSES = {  # whose settings go before tokenizer.json, in both generations; the general class has none
    "BertTokenizer": ("lowercase", True),
    "ElectraTokenizerFast": ("lowercase", True),
    "MPNetTokenizer": ("lowercase", True),
    "PreTrainedTokenizerFast": ("lowercase", False),
    "RobertaTokenizer": ("add_prefix_space", False),
    "GPT2TokenizerFast": ("add_prefix_space", False),
}


@pytest.mark.parametrize("named", CLASSES)
def test_a_class_that_is_named_normalises_as_it_does_where_no_setting_tells(named, tmp_path):
    """BERT's cased tokenizer.json without `do_lower_case`: transformers reads it in lower case, 4.57 as 5.24 does."""
    (setting, wanted), words = CLASSES[named], ["[PAD]", "[UNK]", "[MASK]", "Anna", "anna"]
    backend = of_word_pieces(*words) if setting == "lowercase" else of_bytes(*words)
    part = "normalizer" if setting == "lowercase" else "pre_tokenizer"
    own = getattr(backend, part)
    setattr(own, setting, not wanted if named != "PreTrainedTokenizerFast" else wanted)
    setattr(backend, part, own)
    backend.save(str(tmp_path / "tokenizer.json"))
    hf.BertConfig().save_pretrained(tmp_path)
    roles = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": named, **roles})
    found = load(locate(str(tmp_path)), TASKS["fill-mask"].head).tokenizer.backend_tokenizer
    assert getattr(getattr(found, part), setting) == wanted


@pytest.mark.parametrize("named", ["PreTrainedTokenizerFast", "ElectraTokenizerFast", "AlbertTokenizerFast"])
def test_the_second_text_is_in_the_second_segment_where_transformers_4_put_it(named, tmp_path):
    """Classes for which transformers 5 gives no segments, though the models of transformers 4 had seen them."""
    words = word_tokenizer(WORDS)
    config = hf.BertConfig(vocab_size=len(words), pad_token_id=0, **labelled("ab"), **OF_64_TOKENS)
    save(tmp_path, random_model(LOADERS["text-classification"], config), words)
    as_transformers_4_writes_it(tmp_path)
    said = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8")) | {"tokenizer_class": named}
    del said["model_input_names"]
    write(tmp_path / "tokenizer_config.json", said)
    found = load(locate(str(tmp_path)), TASKS["text-classification"].head).tokenizer("a dog", "the man .")
    assert found["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_mask_takes_the_space_before_it_where_there_is_no_tokenizer_json(tmp_path):
    """RoBERTa of vocab.json and merges.txt: its authors divide the texts beside a mask without that space."""
    save_tiny(ROWS["roberta"], tmp_path / "own")
    (tmp_path / "own" / "tokenizer.json").unlink(missing_ok=True)
    found = load(locate(str(tmp_path / "own")), TASKS["fill-mask"].head).tokenizer
    words = [found(text, add_special_tokens=False)["input_ids"] for text in ("Anna likes", " now.")]
    assert found("Anna likes <mask> now.")["input_ids"][1:-1] == [*words[0], found.mask_token_id, *words[1]]


def divided(pieces, before, trainer, normalizer=None):
    """A tokenizer of the library `tokenizers`, trained on the texts; its model writes the files of old checkpoints."""
    backend = Tokenizer(pieces)
    backend.pre_tokenizer = before
    if normalizer:
        backend.normalizer = normalizer
    backend.train_from_iterator([*TEXTS, "Anna likes to smoke. The café isn't open."] * 3, trainer)
    return backend


def of_bytes(*special):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(special_tokens=[*special], initial_alphabet=alphabet, show_progress=False)
    return divided(models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False), trainer)


def of_word_pieces(*special):
    trainer = trainers.WordPieceTrainer(special_tokens=[*special], show_progress=False)
    pieces = models.WordPiece(unk_token="[UNK]")
    return divided(pieces, pre_tokenizers.BertPreTokenizer(), trainer, normalizers.BertNormalizer())


VOCABULARIES = {  # without tokenizer.json: the tokens around a text, and how the vocabulary is made
    "roberta": ("fill-mask", (0, 2), partial(of_bytes, "<s>", "<pad>", "</s>", "<unk>", "<mask>")),
    "gpt2": ("text-generation", (), partial(of_bytes, "<|endoftext|>")),
    "bert": ("fill-mask", (2, 3), partial(of_word_pieces, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")),
}


def add_a_word(folder, number, place):
    """As transformers 4 kept a word that a user has added: before and since its version 4.34."""
    word = {"content": "xylotrope", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    written = {"added_tokens.json": {"xylotrope": number}, "tokenizer_config.json": {"added_tokens_decoder": {}}}
    written["tokenizer_config.json"]["added_tokens_decoder"][str(number)] = word | {"special": False}
    write(folder / place, written[place])


@pytest.mark.parametrize("place", ["added_tokens.json", "tokenizer_config.json"])
@pytest.mark.parametrize("family", VOCABULARIES)
def test_a_vocabulary_without_tokenizer_json_is_read_with_the_words_that_were_added(family, place, tmp_path):
    task, around, make = VOCABULARIES[family]
    backend = make()
    hf.CONFIG_MAPPING[family]().save_pretrained(tmp_path)
    backend.model.save(str(tmp_path))
    for is_added in (False, True):
        if is_added:
            add_a_word(tmp_path, backend.get_vocab_size(), place)
            backend.add_tokens(["xylotrope"])
        found = load(locate(str(tmp_path)), TASKS[task].head).tokenizer
        for text in ("Anna likes the café.", " it isn't  open", "a xylotrope is no xylotropes", "我 ?"):
            ids = backend.encode(text, add_special_tokens=False).ids
            assert found(text)["input_ids"] == [*around[:1], *ids, *around[1:]]
        assert found.get_vocab() == backend.get_vocab()


def test_sentencepiece_models_are_divided_as_by_sentencepiece_itself(tmp_path):
    import sentencepiece

    for family in ("deberta-v2", "xlm-roberta", "xlm-roberta (BPE)", "rembert"):
        folder = tmp_path / family
        save_tiny(ROWS[family], folder)
        (path,) = folder.glob("*.model")
        authors = sentencepiece.SentencePieceProcessor(model_file=str(path))
        found = load(locate(str(folder)), TASKS["fill-mask"].head).tokenizer
        for text in ("anna likes to smoke", "maria isn't happy", "Anna ﬁ ǅ", "he doesn't like to dance."):
            ids = found(text, add_special_tokens=False)["input_ids"]
            known = found.get_vocab()
            assert ids == [known.get(piece, found.unk_token_id) for piece in authors.encode(text, out_type=str)]
        for place in ("added_tokens.json", "tokenizer_config.json"):
            add_a_word(folder, len(known), place)
            further = load(locate(str(folder)), TASKS["fill-mask"].head).tokenizer
            assert further.get_vocab() == known | {"xylotrope": len(known)}
            assert len(known) in further("anna likes xylotrope")["input_ids"]
            (folder / place).unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"rope_theta": 123.0, "local_rope_theta": 7.0},
            "says local_rope_theta 7.0, and the installed transformers rotates",
        ),
        ({"rope_scaling": {"rope_type": "linear", "factor": 3.0, "unknown": 5}}, ""),
    ],
)
def test_rotations_that_would_be_left_out_are_refused(change, said, tmp_path):
    folder = causal_checkpoints.write_causal(tmp_path / "own", "llama")
    as_transformers_4_writes_it(folder)
    config = json.loads((folder / "config.json").read_text("utf-8")) | change
    write(folder / "config.json", config)
    if said:
        with pytest.raises(InputError, match=said):
            load(locate(str(folder)), TASKS["text-generation"].head)
    else:
        found = load(locate(str(folder)), TASKS["text-generation"].head).config.rope_parameters
        assert (found["factor"], found["unknown"]) == (3.0, 5)
