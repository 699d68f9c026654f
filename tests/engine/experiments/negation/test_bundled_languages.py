"""The bundled languages: enough words, a pattern for each role, sentences that agree with the person."""

import pytest
from negengine.engine.basics.choices import Coreference
from negengine.engine.experiments.negation.grid import pair_fillers
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern import VERB
from negengine.engine.text.pattern_files import load_language

OURS = ["italian", "italian-null-subject", "italian-gerund", "french", "french-gerund"]
WRITTEN = {
    "Bianca psicologa": "Bianca è una psicologa a cui non piace andare. Lei è contenta di [MASK].",
    "Achille psicologo": "Achille è uno psicologo a cui non piace andare. Lui è contento di [MASK].",
    "Adèle actrice": "Adèle est une actrice qui n'aime pas aller. Elle est heureuse de pouvoir [MASK].",
    "Adrien acteur": "Adrien est un acteur qui n'aime pas aller. Il est heureux de pouvoir [MASK].",
}


@pytest.mark.parametrize("name", ["french", "italian"])
@pytest.mark.parametrize("verbs", ["verbs.txt", "verbs_gerund.txt"])
def test_a_language_has_as_many_names_and_professions_as_the_paper(name, verbs):
    lexicon = load_lexicon(lexicon_path(name), verbs)
    assert (lexicon.genders.count("f"), lexicon.genders.count("m"), len(lexicon.professions)) == (100, 100, 91)
    assert len({lexicon.accepted(verb) for verb in lexicon.verbs}) == len(lexicon.verbs) > 300


@pytest.mark.parametrize("name", OURS)
def test_a_set_has_a_pattern_for_each_role_of_the_paper_in_minimal_pairs(name):
    patterns = {pattern.name: pattern for pattern in load_language(name).patterns.all}
    roles = {"CpTp": "selecting", "CpTn": "forbidden", "CnTp": "forbidden", "CnTn": "control", "CpTv": "control"}
    assert {name: str(pattern.role) for name, pattern in patterns.items()} == roles
    assert all(pattern.sentence.endswith("{MASK}.") for pattern in patterns.values())
    for begin, context in {"Cp": "CpTp", "Cn": "CnTp"}.items():
        assert {own.context for key, own in patterns.items() if key[:2] == begin} == {patterns[context].context}
    for end, target in {"Tp": "CpTp", "Tn": "CpTn"}.items():
        assert {own.target for key, own in patterns.items() if key[2:] == end} == {patterns[target].target}


@pytest.mark.parametrize("words", WRITTEN)
def test_sentences_agree_with_the_person(words):
    name, profession = words.split()
    language, verb = ("italian", "andare") if profession.startswith("psi") else ("french", "aller")
    lexicon, patterns = (own := load_language(language)).lexicon, own.patterns
    who = lexicon.names.index(name)
    what = [form.endswith(profession) for form in lexicon.forms["PROF"][lexicon.genders[who]]].index(True)
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    slots = {VERB: verb, **{slot: filler.word(who, what) for slot, filler in fillers.items()}}
    assert {pattern.name: pattern.text(slots, "[MASK]") for pattern in patterns.all}["CnTp"] == WRITTEN[words]
