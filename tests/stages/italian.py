"""A small language with an elision: its files by name, for tests that damage them."""

FILES = {
    "pronouns.txt": "female = lei\nmale = lui\n",
    "articles.txt": "un\nuno\nuna\nun'\n",
    "names_female.txt": "Anna\nMaria\n",
    "names_male.txt": "Paolo\n",
    "professions_female.txt": "un'architetta\nuna psicologa\n",
    "professions_male.txt": "un architetto\nuno psicologo\n",
    "verbs.txt": "andare\nballare\n",
    "agreement.toml": """\
elision = [{ words = { a = "ad", di = "d'" }, before = ["a"] }]
""",
    "patterns.toml": """\
name = "Italian"
lexicon = "."

[slots]
HAPPY = { female = "contenta", male = "contento" }
OTHER = ["leggere libri"]

[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} è {PROF} a cui piace {ACT} o {OTHER}."
target = "{PRON} è {HAPPY} se può {MASK}."

[[pattern]]
name = "CpTn"
role = "forbidden"
context = "{NAME} è {PROF} a cui piace {ACT} o {OTHER}."
target = "{PRON} non è {HAPPY} se può {MASK}."

[[pattern]]
name = "CpTv"
role = "control"
context = "{NAME} è {PROF} a cui piace {ACT} o {OTHER}."
target = "{PRON} è molto {HAPPY} se può {MASK}."
""",
}
