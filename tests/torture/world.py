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
    "a an who likes like to is isn ' t doesn does not very happy sad she he She He . , | and the The it It was At last "
    "came ran dog cat car tree house man tool insect"
)
DIAGNOSTICS = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n" + "".join(
    f"{i}\tThe {noun} ran.\tAt last it came to the\t{noun}\tcat\tcar\t{'HL'[i % 2]}\n"
    for i, noun in enumerate(["dog", "tree", "house", "man", "tool", "insect"])
)
_HIDDEN = 32


def build_world(folder: Path) -> None:
    """Make all inputs, in this process: it imports PyTorch and opens models, so no process may be forked from it."""
    few, many = (NAMES[::3], PROFESSIONS[:3]), (MANY_NAMES, MANY_PROFESSIONS)
    for inner, (names, professions) in {"words": few, "many-words": many}.items():
        half = len(names) // 2
        lists = {"names_female": names[:half], "names_male": names[half:], "verbs": VERBS}
        lists["professions"] = [f"a {word}" for word in professions]
        (folder / inner).mkdir(parents=True)
        for name, words in lists.items():
            (folder / inner / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    (folder / "CPRAG-102.tsv").write_text(DIAGNOSTICS, "utf-8")
    import torch
    from negengine.export.build import build
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
    for part in (model, tokenizer):
        part.save_pretrained(folder / "checkpoint")
    build(str(folder / "checkpoint"), folder / "model")
