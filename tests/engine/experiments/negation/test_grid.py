"""The grid of candidates, samples of it, and what depends on the words and the seed alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.choices import Coreference
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.grid import Grid, sample_pairs, subjects, verb_order
from negengine.engine.text.lexicon import Lexicon, load_lexicon

LEXICON = load_lexicon()


@st.composite
def grids(draw):
    names, professions, verbs = (draw(st.integers(1, 7)) for _ in range(3))
    pairs = draw(st.sets(st.integers(0, names * professions - 1), min_size=1))
    return Grid(names, professions, verbs, np.array(sorted(pairs)))


def lexicon(female="Anna Maria Joyce", male="John Paul", professions="dancer architect", verbs="smoke dance"):
    female, male = female.split(), male.split()
    return Lexicon(
        names=(*female, *male),
        genders=("f",) * len(female) + ("m",) * len(male),
        professions=tuple(professions.split()),
        verbs=tuple(verbs.split()),
    )


@given(grids(), st.integers(1, 9))
def test_every_candidate_is_located_once_and_the_parts_make_up_the_grid(grid, pairs_per_part):
    name, profession, verb = whole = grid.locate(np.arange(grid.size))
    expected = {(*divmod(int(pair), grid.professions), verb) for pair in grid.pairs for verb in range(grid.verbs)}
    assert len(name) == len(expected)
    assert set(zip(name.tolist(), profession.tolist(), verb.tolist(), strict=True)) == expected
    parts = [grid.part_indices(part) for part in grid.parts(pairs_per_part)]
    assert all(map(np.array_equal, (np.concatenate(columns) for columns in zip(*parts, strict=True)), whole))
    assert all(1 <= len(part) <= pairs_per_part for part in grid.parts(pairs_per_part))


@given(st.integers(1, 18_200), st.integers(1, 18_200))
def test_samples_have_their_size_and_are_nested(n, m):
    small, large = sample_pairs(LEXICON, min(n, m), seed=0), sample_pairs(LEXICON, max(n, m), seed=0)
    assert (len(small), len(large)) == (min(n, m), max(n, m))
    assert np.all(np.isin(small, large))
    assert np.all(np.diff(large) > 0)
    assert np.all(np.isin(large, sample_pairs(LEXICON, None, seed=0)))


def test_what_cannot_be_sampled_is_refused():
    for n in (0, -1, 11):
        with pytest.raises(InputError, match=f"{n} pairs asked for: the lexicon has 10; ask for 1 to 10"):
            sample_pairs(lexicon(), n, seed=0)
    with pytest.raises(InputError, match="--seed -1: give a number from 0 to"):
        sample_pairs(lexicon(), 5, seed=-1)
    with pytest.raises(InputError, match="with co-reference same-gender no other name can follow 'John'"):
        subjects(lexicon(male="John"), Coreference.SAME_GENDER, seed=0)


def test_the_order_of_verbs_the_sample_and_other_names_are_functions_of_the_words_and_the_seed():
    here, there = lexicon(), lexicon("Joyce Maria Anna", "Paul John", "architect dancer", "dance drink smoke")
    [anna, john], [dancer, architect] = np.array([0, 3]), np.array([0, 1])
    keys = verb_order(here, 5, np.array([anna, john]), np.array([dancer, architect]), np.array([0, 1]))
    again = verb_order(there, 5, np.array([4, 2]), np.array([0, 1]), np.array([2, 0]))
    assert np.array_equal(keys, again[::-1])

    def sampled(words):
        ids = sample_pairs(words, 3, seed=1)
        return {(words.names[i], words.professions[j]) for i, j in zip(*np.divmod(ids, 2), strict=True)}

    def others(words):
        fillers, index = subjects(words, Coreference.SAME_GENDER, seed=3)
        pairs = itertools.product(enumerate(words.names), enumerate(words.professions))
        return {(name, profession): fillers[index[i, j]] for (i, name), (j, profession) in pairs}

    assert sampled(here) == sampled(there)
    assert others(here) == others(there)


def test_the_order_of_verbs_and_the_sample_differ_with_each_word_and_the_seed():
    def key(seed=5, name=0, profession=0, verb=0):
        return verb_order(lexicon(), seed, np.array([name]), np.array([profession]), np.array([verb]))

    assert all(key() != key(**other) for other in ({"seed": 6}, {"name": 1}, {"profession": 1}, {"verb": 1}))
    assert not np.array_equal(sample_pairs(LEXICON, 100, seed=0), sample_pairs(LEXICON, 100, seed=1))


def test_the_pronoun_follows_the_gender_and_the_same_name_is_the_name_itself():
    wanted = {Coreference.PRONOUN: ["she"] * 3 + ["he"] * 2, Coreference.SAME_NAME: list(lexicon().names)}
    for coreference, of_name in wanted.items():
        fillers, index = subjects(lexicon(), coreference, seed=0)
        assert [[fillers[i] for i in row] for row in index] == [[word] * 2 for word in of_name]


@pytest.mark.parametrize(
    ("coreference", "female", "male"), [(Coreference.SAME_GENDER, "f", "m"), (Coreference.OTHER_GENDER, "m", "f")]
)
def test_another_name_has_the_gender_asked_for_and_each_does_about_equally_often(coreference, female, male):
    fillers, index = subjects(LEXICON, coreference, seed=0)
    assert fillers == LEXICON.names
    genders = np.array(LEXICON.genders)[index]
    assert set(genders[:100].ravel()) == {female}
    assert set(genders[100:].ravel()) == {male}
    assert not np.any(index == np.arange(200)[:, None])
    # 9,100 choices among 99 or 100 others: 91 to 91.9 each expected, six standard deviations are 58.
    assert np.all(np.abs(np.bincount(index.ravel()) - 91.9) < 58)
