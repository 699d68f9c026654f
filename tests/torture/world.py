"""What the tortured commands work on: a tiny model that repeats most verbs, word lists, one data set.

The model is built, not trained. Its one layer attends to all tokens alike, so the mask sees the mean of the sentence's
word vectors, and the tied decoder scores the words that are in it. A bias leaves only the verbs in question. So a verb
is mostly repeated, with the noise of random vectors: about as much as a real model does.
"""

from itertools import product
from pathlib import Path

NAMES = ["".join(pair) for pair in product(("Al", "Be", "Do", "Fi", "Ka", "Li", "Mo", "Ru"), ("ba", "na", "ro"))]
PROFESSIONS = ["dancer", "doctor", "baker", "pilot", "nurse", "judge", "lawyer", "farmer"]
MANY_NAMES = [name + end for name in NAMES for end in ("", "l", "s", "x")]
MANY_PROFESSIONS = [word + end for word in PROFESSIONS for end in ("", "o", "u", "i", "ko", "ku", "ki")]
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


def build_world(folder: Path) -> None:
    """Make all inputs, in this process: it imports PyTorch and opens models, so no process may be forked from it."""
    few, many = (NAMES[::3], PROFESSIONS[:3]), (MANY_NAMES, MANY_PROFESSIONS)
    for name, (names, professions) in {"words": few, "many-words": many}.items():
        half = len(names) // 2
        lists = {"names_female": names[:half], "names_male": names[half:], "verbs": VERBS}
        lists["professions"] = [f"a {word}" for word in professions]
        _write(folder / name, "txt", {list_: "".join(f"{word}\n" for word in words) for list_, words in lists.items()})
    _write(folder / "tables", "tsv", TABLES)
    _save_checkpoint(folder / "checkpoint")
    from negengine.export.build import build

    build(str(folder / "checkpoint"), folder / "model")


def _write(folder: Path, suffix: str, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.{suffix}").write_text(text, "utf-8")


def _save_checkpoint(folder: Path) -> None:
    import torch
    from transformers import BertConfig, BertForMaskedLM
    from word_tokenizer import word_tokenizer

    tokenizer = word_tokenizer(dict.fromkeys([*WORDS.split(), *VERBS, *MANY_NAMES, *MANY_PROFESSIONS]))
    ids = tokenizer.get_vocab()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(ids), hidden_size=_HIDDEN, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
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
    tokenizer.save_pretrained(folder)
