"""A lexicon and patterns in another language: files alone, without a word of it in the code."""

import numpy as np
import pytest
from negengine.engine.basics.choices import Coreference, VerbConvention
from negengine.engine.experiments.negation.grid import Grid, all_pairs, pair_fillers
from negengine.engine.text.composition import composer
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import MASK, VERB
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.verbs import mask_fillers
from tokenizers import Tokenizer, models, pre_tokenizers

FRENCH = {
    "articles.txt": "un\nune\nl'\n",
    "pronouns.txt": "female = elle\nmale = il\n",
    "names_female.txt": "Marie\nJeanne\n",
    "names_male.txt": "Pierre\nJean\n",
    "professions_female.txt": "une danseuse\nune architecte\n",
    "professions_male.txt": "un danseur\nun architecte\n",
    "verbs.txt": "danser\nfumer\nbavarder\n",
    "slot_CITY.txt": "Lyon\nNantes\n",
    "slot_HAPPY.txt": "female = heureuse\nmale = heureux\n",
}
PATTERNS = """
name = "french"

[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} est {PROF} de {CITY} qui aime {ACT}."
target = "{PRON} est {HAPPY} de {MASK}."

[[pattern]]
name = "CpTn"
role = "forbidden"
context = "{NAME} est {PROF} de {CITY} qui aime {ACT}."
target = "{PRON} n'est pas {HAPPY} de {MASK}."
"""
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = """
    Marie Jeanne Pierre Jean une un danseuse danseur architecte Lyon Nantes est de qui aime danser fumer bav ##arder
    Elle Il heureuse heureux n pas ' . -
"""
WORDS = [*SPECIAL, *VOCABULARY.split()]


@pytest.fixture
def lexicon(tmp_path):
    for name, text in FRENCH.items():
        (tmp_path / name).write_text(text, "utf-8")
    return load_lexicon(tmp_path)


@pytest.fixture
def patterns(tmp_path, lexicon):
    (tmp_path / "french.toml").write_text(PATTERNS, "utf-8")
    return load_patterns(tmp_path / "french.toml", lexicon.slots)


@pytest.fixture
def tokenizer():
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(SPECIAL)
    return MaskTokenizer(made, "[MASK]")


def filled(pattern, fillers, name, profession, verb):
    words = {slot: filler.word(name, profession) for slot, filler in fillers.items()}
    return pattern.text({**words, VERB: verb}, "[MASK]")


def test_sentences_agree_with_the_names(lexicon, patterns):
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    city = {(i, j): fillers["CITY"].word(i, j) for i in range(4) for j in range(2)}
    assert set(city.values()) <= {"Lyon", "Nantes"}
    assert [filled(patterns.selecting, fillers, i, j, "fumer") for i, j in [(0, 0), (2, 0), (3, 1)]] == [
        f"Marie est une danseuse de {city[0, 0]} qui aime fumer. Elle est heureuse de [MASK].",
        f"Pierre est un danseur de {city[2, 0]} qui aime fumer. Il est heureux de [MASK].",
        f"Jean est un architecte de {city[3, 1]} qui aime fumer. Il est heureux de [MASK].",
    ]


def test_the_target_agrees_with_who_it_is_about(lexicon, patterns):
    fillers = pair_fillers(lexicon, Coreference.OTHER_GENDER, seed=0)
    sentence = filled(patterns.selecting, fillers, 0, 0, "fumer")
    assert sentence.startswith("Marie est une danseuse de")
    assert sentence.endswith(("Pierre est heureux de [MASK].", "Jean est heureux de [MASK]."))


def test_the_word_of_a_pair_does_not_depend_on_the_order_of_the_lists(lexicon, tmp_path):
    def cities(lexicon):
        filler = pair_fillers(lexicon, Coreference.PRONOUN, seed=3)["CITY"]
        return {name: [filler.word(i, j) for j in range(2)] for i, name in enumerate(lexicon.names)}

    before = cities(lexicon)
    for name in ("names_female.txt", "slot_CITY.txt"):
        (tmp_path / name).write_text("\n".join(reversed(FRENCH[name].split())), "utf-8")
    assert cities(load_lexicon(tmp_path)) == before


def test_all_sentences_of_the_grid_are_composed(lexicon, patterns, tokenizer):
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    words = {VERB: lexicon.verbs, **{slot: filler.words for slot, filler in fillers.items()}}
    base = {slot: words[slot][0] for slot in patterns.slots}
    verb, token = mask_fillers(tokenizer, patterns.selecting, lexicon.verbs, base, VerbConvention.IN_CONTEXT)
    assert [WORDS[i] for i in token] == ["danser", "fumer"]

    grid = Grid(len(lexicon.names), len(lexicon.professions), len(verb), all_pairs(lexicon))
    name, profession, which = grid.locate(np.arange(grid.size))
    rows = {VERB: verb[which], **{slot: filler.index[name, profession] for slot, filler in fillers.items()}}
    for pattern in patterns.all:
        made = composer(tokenizer, pattern, words, seed=0)
        texts = [
            filled(pattern, fillers, i, j, lexicon.verbs[verb[k]])
            for i, j, k in zip(name, profession, which, strict=True)
        ]
        expected = [ids.tolist() for ids in tokenizer.encode(texts)]
        for bucket in made.compose(rows):
            assert [expected[row] for row in bucket.rows] == bucket.ids.tolist()
        assert made.longest({VERB: verb}) == max(map(len, expected))
        assert MASK not in pattern.slots
