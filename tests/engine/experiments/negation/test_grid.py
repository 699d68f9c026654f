"""The grid of candidates, samples of it, what depends on the words and the seed alone, lazy tests, and the plan."""

import itertools

import numpy as np
import pytest
from fake_models import LEXICON as FEW
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.choices import Coreference
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation import select
from negengine.engine.experiments.negation import selection_plan as planning
from negengine.engine.experiments.negation.grid import Grid, pair_fillers, sample_pairs, subjects, verb_order
from negengine.engine.experiments.negation.lazy import fewest_tests, first_repeating, share_interval
from negengine.engine.experiments.negation.negation import Select
from negengine.engine.experiments.negation.negation_runs import SelectionRun
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.library.model import open_model
from negengine.engine.runs.stage import part_ranges
from negengine.engine.statistics.intervals import exact_proportion_interval
from negengine.engine.statistics.power import clusters_needed
from negengine.engine.text.bundled import lexicon_path
from negengine.engine.text.lexicon import Lexicon, load_lexicon
from negengine.engine.text.pattern import VERB
from negengine.engine.text.pattern_files import load_language, load_patterns

LEXICON = load_lexicon()


def lexicon(female="Anna Maria Joyce", male="John Paul", professions="dancer architect", verbs="smoke dance"):
    names = female.split(), male.split()
    genders = [gender for gender, own in zip("fm", names, strict=True) for _ in own]
    return Lexicon((*names[0], *names[1]), tuple(genders), tuple(professions.split()), tuple(verbs.split()))


@given(st.data(), *[st.integers(1, 7)] * 3, st.integers(1, 9))
def test_every_candidate_is_located_once_and_the_parts_make_up_the_grid(
    data, names, professions, verbs, pairs_per_part
):
    pairs = data.draw(st.sets(st.integers(0, names * professions - 1), min_size=1))
    grid = Grid(names, professions, verbs, np.array(sorted(pairs)))
    name, profession, verb = whole = grid.locate(np.arange(grid.size))
    expected = [(*divmod(int(pair), grid.professions), verb) for pair in grid.pairs for verb in range(grid.verbs)]
    assert list(zip(name.tolist(), profession.tolist(), verb.tolist(), strict=True)) == expected
    ranges = part_ranges(len(pairs), pairs_per_part)
    parts = [grid.part_indices(part) for part in ranges]
    assert all(map(np.array_equal, (np.concatenate(columns) for columns in zip(*parts, strict=True)), whole))
    assert all(1 <= len(part) <= pairs_per_part for part in ranges)


@given(st.integers(1, 18_200), st.integers(1, 18_200))
def test_samples_have_their_size_and_are_nested(n, m):
    small, large = (sample_pairs(LEXICON, size, seed=0) for size in sorted((n, m)))
    assert [len(small), len(large)] == sorted((n, m))
    assert np.isin(small, large).all()
    assert (np.diff(large) > 0).all()
    assert np.isin(large, sample_pairs(LEXICON, None, seed=0)).all()


def test_what_cannot_be_sampled_is_refused():
    for n in (0, -1, 11):
        with pytest.raises(InputError, match=f"{n} pairs asked for: the lexicon has 10; ask for 1 to 10"):
            sample_pairs(lexicon(), n, seed=0)
    with pytest.raises(InputError, match="--seed -1: give a number from 0 to"):
        sample_pairs(lexicon(), 5, seed=-1)
    with pytest.raises(InputError, match="with co-reference same-gender no other name can follow 'John'"):
        subjects(lexicon(male="John"), Coreference.SAME_GENDER, seed=0)


def chosen(words, seed):
    """By the words alone: the keys of the verbs of each pair, a sample of the pairs, other names in the target."""
    pairs = list(itertools.product(enumerate(words.names), enumerate(words.professions)))
    name, profession = np.array([(i, j) for (i, _), (j, _) in pairs]).T
    keys = verb_order(words, seed, name, profession, np.arange(len(words.verbs)))
    named = [(name, profession) for (_, name), (_, profession) in pairs]
    fillers, index = subjects(words, Coreference.SAME_GENDER, seed)
    return (
        dict(zip(itertools.product(named, words.verbs), keys.ravel(), strict=True)),
        {named[i] for i in sample_pairs(words, 4, seed)},
        {pair: fillers[i] for pair, i in zip(named, index.ravel(), strict=True)},
    )


def test_the_order_of_verbs_the_sample_and_other_names_are_functions_of_the_words_and_the_seed():
    here = chosen(lexicon(), 5)
    assert len(set(here[0].values())) == len(here[0]) == 20  # each word and its place count
    assert chosen(lexicon("Joyce Maria Anna", "Paul John", "architect dancer", "dance smoke"), 5) == here
    assert all(one != other for one, other in zip(chosen(lexicon(), 6), here, strict=True))


def test_the_target_has_the_pronoun_the_name_or_another_one_and_each_other_word_about_equally_often():
    wanted = {Coreference.PRONOUN: ["she"] * 3 + ["he"] * 2, Coreference.SAME_NAME: list(lexicon().names)}
    for coreference, of_name in wanted.items():
        fillers, index = subjects(lexicon(), coreference, seed=0)
        assert [[fillers[i] for i in row] for row in index] == [[word] * 2 for word in of_name]
    for coreference, genders in ((Coreference.SAME_GENDER, "fm"), (Coreference.OTHER_GENDER, "mf")):
        fillers, index = subjects(LEXICON, coreference, seed=0)
        assert fillers == LEXICON.names
        found = np.array(LEXICON.genders)[index]
        assert [set(own.ravel()) for own in (found[:100], found[100:])] == [{gender} for gender in genders]
        assert not np.any(index == np.arange(200)[:, None])
        # 9,100 choices among 99 or 100 others: 91 to 91.9 each expected, six standard deviations are 58.
        assert np.all(np.abs(np.bincount(index.ravel()) - 91.9) < 58)
    language = load_language("self-contained-negation-coordinated")
    fillers, again = (pair_fillers(language.lexicon, Coreference.PRONOUN, seed=0) for _ in range(2))
    assert language.lexicon.lists
    for slot, words in language.lexicon.lists.items():
        assert (np.bincount(fillers[slot].index.ravel(), minlength=len(words)) > 18_200 / len(words) / 2).all()
        assert np.array_equal(fillers[slot].index, again[slot].index)


def test_a_plan_says_what_the_run_does_and_how_many_pairs_a_width_needs(mini, small_lexicon, selected_run, tmp_path):
    def plan(**settings):
        return Select(lexicon=small_lexicon, **settings).plan(open_model(mini.folder), {"output": tmp_path / "run"})

    summary, found = SelectionRun.open(selected_run).summary, plan()
    names = {"verbs": "verbs that are one token", "pairs": "pairs", "tested": "sentences"}
    assert {name: found.work[said] for name, said in names.items()} == {name: summary[name] for name in names}
    assert found.work["candidates"] == summary["tested"]
    assert found.work["sentences of the scoring, at most"] == 4 * found.work["selected triplets, at most"]
    verbs, widths = summary["verbs"], found.widths
    needed = [clusters_needed(width / 100, 0.5, verbs, planning.PAIR_CORRELATION) for width in widths["width"]]
    assert widths["pairs"].to_list() == needed
    assert (widths["pairs_large_correlation"] > widths["pairs"]).all()
    assert found.document()["widths"] == widths.to_dicts()
    assert str(tmp_path / "run") in str(found)
    assert list(tmp_path.iterdir()) == []
    lazy = plan(lazy=True, max_verbs=2, pairs=5).work
    assert (lazy["sentences, at least"], lazy["sentences, at most"]) == (5 * 2, 5 * verbs)
    assert lazy["selected triplets, at most"] == 5 * 2


def test_the_variance_is_that_of_simulated_pairs_and_verbs():
    """Effects of pairs and verbs with shares 0.1 and 0.3 of the variance; 600 samples tell it within 15 %."""
    random, (pairs, size, verbs) = np.random.default_rng(9), (30, 8, 50)
    pair, means = np.repeat(np.arange(pairs), size), []
    for _ in range(600):
        verb = np.concatenate([random.choice(verbs, size, replace=False) for _ in range(pairs)])
        effects = 0.1**0.5 * random.normal(size=pairs)[pair] + 0.3**0.5 * random.normal(size=verbs)[verb]
        means.append(0.5 * (effects + 0.6**0.5 * random.normal(size=len(pair))).mean())  # variance 1/4, as of p = 1/2
    assert planning.two_way_variance(pairs, size, verbs, 0.1, 0.3) == pytest.approx(np.var(means), rel=0.15)


def test_a_lazy_part_has_fewer_pairs_where_there_are_very_many_verbs(mini, monkeypatch):
    """Some arrays of a lazy part have a number for each pair and verb: with 100,000 verbs, 512 pairs took gigabytes."""

    def parts():
        plan = Selection.plan(mini, FEW, load_patterns(), Settings(lazy=True))
        return [len(part) for part in plan.verbs[0].parts]

    assert parts() == [12]
    monkeypatch.setattr(select, "LAZY_CANDIDATES_PER_PART", 5 * len(FEW.verbs))
    assert parts() == [5, 5, 2]


WRITTEN = {
    "Bianca psicologa": "Bianca è una psicologa a cui non piace andare. Lei è contenta di [MASK].",
    "Achille psicologo": "Achille è uno psicologo a cui non piace andare. Lui è contento di [MASK].",
    "Adèle actrice": "Adèle est une actrice qui n'aime pas aller. Elle est heureuse de pouvoir [MASK].",
    "Adrien acteur": "Adrien est un acteur qui n'aime pas aller. Il est heureux de pouvoir [MASK].",
}


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


def run(repeats, order=None, enough=1):
    """What is found, which candidates were asked in which rounds, and the progress that was told."""
    order = np.tile(np.arange(repeats.shape[1]), (len(repeats), 1)) if order is None else order
    rounds, told = [], []

    def decide(pair, verb):
        rounds.append(list(zip(pair.tolist(), verb.tolist(), strict=True)))
        return repeats[pair, verb]

    return first_repeating(order, enough, decide, told.append), rounds, told


RATES = st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0])


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 60), RATES, st.integers(1, 25))
def test_the_first_repeating_verbs_are_found_and_none_is_tested_twice(seed, pairs, verbs, rate, enough):
    random = np.random.default_rng(seed)
    repeats = random.random((pairs, verbs)) < rate
    order = random.permuted(np.tile(np.arange(verbs), (pairs, 1)), axis=1)
    found, rounds, told = run(repeats, order, enough)
    wanted, kept = (
        [[verb for verb in row if which[pair, verb]][:enough] for pair, row in enumerate(order)]
        for which in (repeats, found.repeated)
    )
    assert kept == wanted
    candidates = [candidate for asked in rounds for candidate in asked]
    assert len(candidates) == len(set(candidates)) == found.tested.sum()
    assert sum(told) == pairs * enough  # a pair without so many counts as complete
    assert min(told) >= 0


@pytest.mark.parametrize("enough", [1, 2, 3, 4])
@pytest.mark.parametrize("verbs", [1, 2, 5, 8])
def test_the_estimate_and_its_variance_are_unbiased(verbs, enough):
    """Over all orders in which any number of repeating verbs can come, each as likely: exactly, not by a sample."""
    for repeating in range(verbs + 1):
        orders = itertools.combinations(range(verbs), repeating)
        found, _, _ = run(np.array([[verb in own for verb in range(verbs)] for own in orders]), enough=enough)
        assert found.repeating.mean() == pytest.approx(repeating)
        assert found.variance.mean() == pytest.approx(found.repeating.var())
        assert found.stopped.all() == (repeating >= enough)


def test_the_interval_of_the_share_is_that_of_as_many_independent_candidates_as_have_its_variance():
    """With one verb a pair, of the pairs; exact where no pair's count is an estimate."""
    for (variance, stopped, enough), n in {(0.3 * 0.7 / 50, 5, 3): 50, (0.01, 5, 1): 10}.items():
        wanted = exact_proportion_interval(0.3, n)
        assert share_interval(0.3, variance, 10, stopped, enough) == pytest.approx(wanted)
    assert share_interval(0.3, 0.01, 10, 0, 3) == (0.3, 0.3)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 25))
def test_no_division_of_the_repetitions_needs_fewer_tests_than_the_bound(repeating, enough):
    """The mean over all orders is exact: k (V + 1) / (R + 1) tests, or V. Equal pairs that repeat often need."""
    verbs = 60
    mean = np.mean([enough * (verbs + 1) / (r + 1) if r >= enough else verbs for r in repeating])
    assert fewest_tests(verbs, enough, float(np.mean(repeating)) / verbs) <= mean + 1e-9
    cases = {(763, 20, 1.0): 20, (763, 20, 500 / 763): 20 * 764 / 501, (763, 20, 0.0): 763, (12, 20, 0.5): 12}
    assert {case: fewest_tests(*case) for case in cases} == pytest.approx(cases)
