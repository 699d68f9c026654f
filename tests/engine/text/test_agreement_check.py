"""Agreement by rule: errors that are put into a right language, one at a time, are found where they are."""

import shutil

import pytest
from italian import FILES
from negengine.engine.text.agreement_check import Finding, Kind, Rules
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.pattern_files import load_language


@pytest.fixture
def found(tmp_path):
    """The findings as `file:line: what`, once a text in a file was replaced."""

    def found(file="", old="", new="", kind=Kind.PROBLEM):
        for name, text in FILES.items():
            changed = text.replace(old, new) if name == file else text
            assert name != file or changed != text
            (tmp_path / name).write_text(changed, "utf-8")
        findings = Rules(load_language(tmp_path / "patterns.toml")).findings()
        told = [f"{finding.where}: {finding.what}" for finding in findings if finding.kind is kind]
        return [said.removeprefix(f"{tmp_path}/") for said in told]

    return found


def test_a_right_language_has_no_findings(found):
    assert found() == found(kind=Kind.NOTE) == []


WOMEN, MEN, VERBS, SET = "professions_female.txt", "professions_male.txt", "verbs.txt", "patterns.toml"
CPTN = '{OTHER}."\ntarget = "{PRON} non'
PROBLEMS = [
    (WOMEN, "un'arch", "una arch", ":1: 'una architetta' has the wrong article; write \"un'architetta\""),
    (MEN, "uno psi", "un psi", ":2: 'un psicologo' has the wrong article; write 'uno psicologo'"),
    (WOMEN, "psicologa", "psicologe", ":2: 'una psicologe', 'uno psicologo' do not differ"),
    (SET, '"contento"', '"felice"', ":5: 'contenta', 'felice' do not differ by a rule"),
    (VERBS, "ballare", "balare\nballato", ":3: 'ballato' does not end in 'are', as [[verbs]] says"),
    (VERBS, "ballare", "a andare are", ":2: 'a andare' should be 'ad andare'"),
    (SET, "molto", "a aver", ":20: 'a aver' should be 'ad aver'"),
    (SET, "{NAME} è", "D'{NAME} è", ":8: \"d'\" before {NAME} does not suit Maria, Paolo; write 'di {NAME}'"),
    (SET, "leggere libri", "ballare", ":6: ballare of {OTHER} are verbs of verbs.txt, too"),
    (SET, f"{{ACT}} o {CPTN}", CPTN, ":14: CpTn has no {ACT}"),
    (SET, "molto ", "", ":20: CpTv has the same sentence as CpTp"),
    ("names_female.txt", "Maria", "Marie\u0301", ":2: 'Marie\u0301' has accents as characters of their own"),
    (WOMEN, "una psicologa", "una psicologa d’acqua", ":2: the apostrophe is ’ here"),
]


@pytest.mark.parametrize(("file", "old", "new", "said"), PROBLEMS, ids=[said[:50] for *_, said in PROBLEMS])
def test_an_error_is_found_where_it_is(found, file, old, new, said):
    assert [own for own in found(file, old, new) if own.startswith(f"{file}{said}")]


NOTES = [
    ("se può {MASK}", "di {MASK}", "patterns.toml:8: 'di' stands before the mask, and is \"d'\" before 1 of 2 verbs"),
    ("se può {MASK}", "d'{MASK}", 'patterns.toml:8: "d\'" stands before the mask: 1 of 2 verbs cannot: ballare'),
    ("{MASK}.", "{MASK} ora.", "patterns.toml:8: CpTp: the mask is not at the end; causal models need that"),
    ("{PRON} ", "", "patterns.toml: no pattern has {PRON}: --coreference takes pronoun only"),
    (" o {OTHER}", "", "patterns.toml:6: no pattern has {OTHER}"),
    ("forbidden", "control", "patterns.toml: no pattern is forbidden, so drops cannot be compared"),
]


@pytest.mark.parametrize(("old", "new", "said"), NOTES, ids=[said[:50] for *_, said in NOTES])
def test_what_a_user_should_know_is_a_note(found, old, new, said):
    assert [own for own in found("patterns.toml", old, new, kind=Kind.NOTE) if own.startswith(said)]


def test_a_wrong_article_in_one_list_for_all_genders_is_told_once(tmp_path):
    folder = shutil.copytree(lexicon_path(), tmp_path / "words")
    (folder / "professions.txt").write_text("an actor\na architect\na university teacher\n")
    rules = '[[article]]\nform = "an"\nbefore = ["a", "u"]\nunless = ["uni"]\n[[article]]\nform = "a"\n'
    (folder / "agreement.toml").write_text(rules)
    [finding] = Rules(load_language(None, folder)).findings()
    said = "'a architect' has the wrong article; write 'an architect'"
    assert finding == Finding(Kind.PROBLEM, f"{folder}/professions.txt:2", said)
