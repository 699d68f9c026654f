"""The grid of candidates, samples of it, the words that a language puts into it, lazy tests, and the plan."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.choices import Coreference
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.grid import pair_fillers, sample_pairs, subjects
from negengine.engine.experiments.negation.lazy import first_repeating, share_interval
from negengine.engine.experiments.negation.negation import Select
from negengine.engine.experiments.negation.negation_runs import SelectionRun
from negengine.engine.library.model import open_model
from negengine.engine.statistics.intervals import exact_proportion_interval
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.lexicon import Lexicon, load_lexicon
from negengine.engine.text.pattern import VERB
from negengine.engine.text.pattern_files import load_language

LEXICON = load_lexicon()


FOUR_NAMES = Lexicon(("Anna", "Maria", "Joyce", "John"), tuple("fffm"), ("dancer", "architect"), ("smoke", "dance"))


@given(st.integers(1, 18_200), st.integers(1, 18_200))
def test_samples_have_their_size_and_are_nested(n, m):
    small, large = (sample_pairs(LEXICON, size, seed=0) for size in sorted((n, m)))
    assert [len(small), len(large)] == sorted((n, m))
    assert np.isin(small, large).all()
    assert (np.diff(large) > 0).all()
    assert np.isin(large, sample_pairs(LEXICON, None, seed=0)).all()


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(InputError, match="9 pairs asked for: the lexicon has 8; ask for 1 to 8"):
        sample_pairs(FOUR_NAMES, 9, seed=0)
    with pytest.raises(InputError, match="with co-reference same-gender no other name can follow 'John'"):
        subjects(FOUR_NAMES, Coreference.SAME_GENDER, seed=0)


def test_the_target_has_the_pronoun_the_name_or_another_one_and_each_other_word_about_equally_often():
    wanted = {Coreference.PRONOUN: ["she", "she", "she", "he"], Coreference.SAME_NAME: list(FOUR_NAMES.names)}
    for coreference, of_name in wanted.items():
        fillers, index = subjects(FOUR_NAMES, coreference, seed=0)
        assert [[fillers[i] for i in row] for row in index] == [[word] * 2 for word in of_name]
    for coreference, genders in ((Coreference.SAME_GENDER, "fm"), (Coreference.OTHER_GENDER, "mf")):
        fillers, index = subjects(LEXICON, coreference, seed=0)
        assert fillers == LEXICON.names
        found = np.array(LEXICON.genders)[index]
        assert [set(own.ravel()) for own in (found[:100], found[100:])] == [{gender} for gender in genders]
        assert not np.any(index == np.arange(200)[:, None])
        # 9,100 choices among 99 or 100 others: 91 to 91.9 each expected, six standard deviations are 58.
        assert np.all(np.abs(np.bincount(index.ravel()) - 91.9) < 58)


def test_a_plan_says_what_the_run_does(mini, small_lexicon, selected_run, tmp_path):
    def plan(**settings):
        return Select(lexicon=small_lexicon, **settings).plan(open_model(mini.folder), {"output": tmp_path / "run"})

    summary, found = SelectionRun.open(selected_run).summary, plan()
    names = {"verbs": "verbs that are one token", "pairs": "pairs", "tested": "sentences"}
    assert {name: found.work[said] for name, said in names.items()} == {name: summary[name] for name in names}
    assert found.work["candidates"] == summary["tested"]
    assert found.work["sentences of the scoring, at most"] == 4 * found.work["selected triplets, at most"]
    verbs = summary["verbs"]
    assert list(tmp_path.iterdir()) == []
    lazy = plan(lazy=True, max_verbs=2, pairs=5).work
    assert (lazy["sentences, at least"], lazy["sentences, at most"]) == (5 * 2, 5 * verbs)
    assert lazy["selected triplets, at most"] == 5 * 2


def test_a_language_has_the_papers_numbers_of_words_and_patterns_for_its_roles_in_minimal_pairs():
    for language, verbs in itertools.product(("french", "italian"), ("verbs.txt", "verbs_gerund.txt")):
        own = load_lexicon(lexicon_path(language), verbs)
        assert (own.genders.count("f"), own.genders.count("m"), len(own.professions)) == (100, 100, 91)
        assert len({own.accepted(verb) for verb in own.verbs}) == len(own.verbs) > 300
    for name in ("italian", "italian-null-subject", "italian-gerund", "french", "french-gerund"):
        patterns = {pattern.name: pattern for pattern in load_language(name).patterns.all}
        roles = {"CpTp": "selecting", "CpTn": "forbidden", "CnTp": "forbidden", "CnTn": "control", "CpTv": "control"}
        assert {name: str(pattern.role) for name, pattern in patterns.items()} == roles
        assert all(pattern.sentence.endswith("{MASK}.") for pattern in patterns.values())
        for begin, context in {"Cp": "CpTp", "Cn": "CnTp"}.items():
            assert {own.context for key, own in patterns.items() if key[:2] == begin} == {patterns[context].context}
        for end, target in {"Tp": "CpTp", "Tn": "CpTn"}.items():
            assert {own.target for key, own in patterns.items() if key[2:] == end} == {patterns[target].target}


@pytest.mark.parametrize(
    ("language", "name", "profession", "verb", "written"),
    [
        ("italian", "Bianca", "psicologa", "andare", "è una psicologa a cui non piace andare. Lei è contenta di"),
        ("french", "Adrien", "acteur", "aller", "est un acteur qui n'aime pas aller. Il est heureux de pouvoir"),
    ],
)
def test_sentences_agree_with_the_person(language, name, profession, verb, written):
    lexicon, patterns = (own := load_language(language)).lexicon, own.patterns
    who = lexicon.names.index(name)
    what = [form.endswith(profession) for form in lexicon.forms["PROF"][lexicon.genders[who]]].index(True)
    fillers = pair_fillers(lexicon, Coreference.PRONOUN, seed=0)
    slots = {VERB: verb, **{slot: filler.word(who, what) for slot, filler in fillers.items()}}
    sentences = {pattern.name: pattern.text(slots, "[MASK]") for pattern in patterns.all}
    assert sentences["CnTp"] == f"{name} {written} [MASK]."


@pytest.mark.parametrize("enough", [1, 2, 3, 4])
@pytest.mark.parametrize("verbs", [1, 2, 5, 8])
def test_the_estimate_and_its_variance_are_unbiased(verbs, enough):
    """Over all orders in which any number of repeating verbs can come, each as likely: exactly, not by a sample."""
    for repeating in range(verbs + 1):
        orders = list(itertools.combinations(range(verbs), repeating))
        repeats = np.array([[verb in own for verb in range(verbs)] for own in orders])
        order, asked = np.tile(np.arange(verbs), (len(repeats), 1)), np.zeros_like(repeats)

        def decide(*candidates, repeats=repeats, asked=asked):
            asked[candidates] = True
            return repeats[candidates]

        found = first_repeating(order, enough, decide, lambda _: None)
        assert [tuple(np.flatnonzero(row))[:enough] for row in asked & repeats] == [own[:enough] for own in orders]
        assert found.repeating.mean() == pytest.approx(repeating)
        assert found.variance.mean() == pytest.approx(found.repeating.var())
        assert found.stopped.all() == (repeating >= enough)


def test_the_interval_of_the_share_is_that_of_as_many_independent_candidates_as_have_its_variance():
    """With one verb a pair, of the pairs; exact where no pair's count is an estimate."""
    for (variance, stopped, enough), n in {(0.3 * 0.7 / 50, 5, 3): 50, (0.01, 5, 1): 10}.items():
        wanted = exact_proportion_interval(0.3, n)
        assert share_interval(0.3, variance, 10, stopped, enough) == pytest.approx(wanted)
    assert share_interval(0.3, 0.01, 10, 0, 3) == (0.3, 0.3)
