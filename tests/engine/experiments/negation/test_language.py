"""A lexicon and patterns in another language: files alone, without a word of it in the code."""

import pytest
from negengine.engine.basics.choices import Coreference
from negengine.engine.experiments.negation.grid import pair_fillers
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import VERB
from negengine.engine.text.pattern_files import load_patterns

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


@pytest.fixture
def lexicon(tmp_path):
    for name, text in FRENCH.items():
        (tmp_path / name).write_text(text, "utf-8")
    return load_lexicon(tmp_path)


def test_sentences_agree_with_the_names(lexicon, tmp_path):
    (tmp_path / "french.toml").write_text(PATTERNS, "utf-8")
    pattern = load_patterns(tmp_path / "french.toml", lexicon.slots).selecting
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    city = {(i, j): fillers["CITY"].word(i, j) for i in range(4) for j in range(2)}
    assert set(city.values()) <= {"Lyon", "Nantes"}
    words = [{slot: filler.word(i, j) for slot, filler in fillers.items()} for i, j in [(0, 0), (2, 0), (3, 1)]]
    assert [pattern.text({**own, VERB: "fumer"}, "[MASK]") for own in words] == [
        f"Marie est une danseuse de {city[0, 0]} qui aime fumer. Elle est heureuse de [MASK].",
        f"Pierre est un danseur de {city[2, 0]} qui aime fumer. Il est heureux de [MASK].",
        f"Jean est un architecte de {city[3, 1]} qui aime fumer. Il est heureux de [MASK].",
    ]


def test_the_word_of_a_pair_does_not_depend_on_the_order_of_the_lists(lexicon, tmp_path):
    def cities(lexicon):
        filler = pair_fillers(lexicon, Coreference.PRONOUN, seed=3)["CITY"]
        return {name: [filler.word(i, j) for j in range(2)] for i, name in enumerate(lexicon.names)}

    before = cities(lexicon)
    for name in ("names_female.txt", "slot_CITY.txt"):
        (tmp_path / name).write_text("\n".join(reversed(FRENCH[name].split())), "utf-8")
    assert cities(load_lexicon(tmp_path)) == before
