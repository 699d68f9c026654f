"""What the tortured commands work on: a tiny model that repeats most verbs, word lists, one data set, finished runs.

The model is built, not trained. Its one layer attends to all tokens alike, so the mask sees the mean of the sentence's
word vectors, and the tied decoder scores the words that are in it. A bias leaves only the verbs in question. So a verb
is mostly repeated, with the noise of random vectors: about as much as a real model does.
"""

import os
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

NAMES = [
    first + second for first, second in product(("Al", "Be", "Do", "Fi", "Ka", "Li", "Mo", "Ru"), ("ba", "na", "ro"))
]
PROFESSIONS = ["dancer", "doctor", "baker", "pilot", "nurse", "judge", "lawyer", "farmer"]
MANY_NAMES = [name + end for name in NAMES for end in ("", "l", "s", "x")]  # 96
MANY_PROFESSIONS = [word + end for word in PROFESSIONS for end in ("", "o", "u", "i", "ko", "ku", "ki")]  # 56
VERBS = ["smoke", "dance", "sing", "swim", "walk", "sleep", "hunt", "dig", "laugh", "cook"]
WORDS = (
    "a an who likes like to is isn ' t doesn does not very happy sad she he She He . , | and the The it It was new old "
    "dog cat car tree house ran red At last came man forgot which waitress customer had tipped paid for served hammer "
    "tool insect Old New cars are aren slow fast"
)
TABLES = {
    "CPRAG-102": "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
    + "".join(
        f"{i}\tThe {noun} ran.\tAt last it came to the\t{noun}\tcat\tcar\t{'HL'[i % 2]}\n"
        for i, noun in enumerate(["dog", "tree", "house", "man", "tool", "insect"])
    ),
    "ROLE-88": "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)\n"
    "1-b\tthe man forgot which waitress the customer had \ttipped|paid for\t0.2\tserved\t0\t0\n"
    "1-a\tthe man forgot which customer the waitress had \tserved\t0.6\tserved\t0.6\t0.6\n",
    "NEG-136-SIMP": "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
    "0\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect\n",
    "NEG-136-NAT": "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing\n"
    "0\tOld cars are\tOld cars aren't\tslow\tfast\tY\n"
    "1\tNew cars are\tNew cars aren't\tfast\tslow\tN\n",
}
_HIDDEN = 32


@dataclass(frozen=True)
class World:
    """The inputs of all commands."""

    folder: Path  # everything is inside

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def words(self) -> Path:
        return self.folder / "words"

    @property
    def many_words(self) -> Path:
        return self.folder / "many-words"

    @property
    def tables(self) -> Path:
        return self.folder / "tables"


def build_world(folder: Path) -> World:
    """Make all inputs, in this process: it imports PyTorch and opens models, so no process may be forked from it."""
    world = World(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write_words(world.words, NAMES[::3], [f"a {word}" for word in PROFESSIONS[:3]])
    _write_words(world.many_words, MANY_NAMES, [f"a {word}" for word in MANY_PROFESSIONS])
    world.tables.mkdir()
    for name, text in TABLES.items():
        (world.tables / f"{name}.tsv").write_text(text, "utf-8")
    _save_checkpoint(world.checkpoint)
    from negengine.export.build import build

    build(str(world.checkpoint), world.model)
    return world


def _write_words(folder: Path, names: list[str], professions: list[str]) -> None:
    folder.mkdir()
    half = len(names) // 2
    names_of = {"names_female": names[:half], "names_male": names[half:]}
    lists = {**names_of, "professions": professions, "verbs": VERBS}
    for name, words in lists.items():
        (folder / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")


def _save_checkpoint(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
    words = (*special, *WORDS.split(), *VERBS, *MANY_NAMES, *MANY_PROFESSIONS, *letters, *(f"##{x}" for x in letters))
    vocabulary = list(dict.fromkeys(words))
    ids = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    tokenizer.decoder = decoders.WordPiece()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="[MASK]", pad_token="[PAD]", unk_token="[UNK]"
    )
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(wrapped), hidden_size=_HIDDEN, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        embeddings = model.bert.embeddings
        embeddings.word_embeddings.weight.normal_(0, 1)
        embeddings.word_embeddings.weight[ids["[MASK]"]] = 0
        embeddings.position_embeddings.weight.normal_(0, 0.05)
        embeddings.token_type_embeddings.weight.zero_()
        attention = model.bert.encoder.layer[0].attention
        attention.self.query.weight.zero_()
        attention.self.value.weight.copy_(torch.eye(_HIDDEN))
        attention.output.dense.weight.copy_(4 * torch.eye(_HIDDEN))
        transform = model.cls.predictions.transform.dense
        transform.weight.copy_(torch.eye(_HIDDEN))
        transform.bias.fill_(2)  # where gelu is nearly linear
        model.cls.predictions.bias.fill_(-20)
        for verb in VERBS:
            model.cls.predictions.bias[ids[verb]] = 0.1 * float(torch.randn(()))
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)


def copy_tree(source: Path | None, target: Path) -> None:
    """Put a copy of a folder, or an empty one if there is no such folder, in the place of another one."""
    shutil.rmtree(target, ignore_errors=True)
    if source is not None and source.is_dir():
        shutil.copytree(source, target)
    else:
        os.makedirs(target)  # noqa: PTH103 -- the pendant of copytree
