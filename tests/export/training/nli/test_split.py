"""Pairs with negation are divided by their original pair: nothing of a triple leaks."""

import pytest
from negengine.engine.errors import InputError
from negengine.engine.experiments.nli.labels import Label
from negengine.engine.experiments.nli.pairs import KINDS, Pair, read_benchmark
from negengine.export.training.nli.held_out import write_held_out
from negengine.export.training.nli.split import split


def triple(number: int, text: str = "", hypothesis: str = "") -> list[Pair]:
    text, hypothesis = text or f"t{number}", hypothesis or f"h{number}"
    sides = ((f"not {text}", hypothesis), (text, f"not {hypothesis}"), (f"not {text}", f"not {hypothesis}"))
    return [
        Pair(3 * number + i, KINDS[i], one, other, Label.ENTAILMENT, f"RTE.txt:{3 * number + i + 2}")
        for i, (one, other) in enumerate(sides)
    ]


def triples(n: int) -> list[Pair]:
    return [pair for number in range(n) for pair in triple(number)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.7])
def test_no_triple_is_in_both_parts(fraction, seed):
    found = split(triples(50), fraction, seed)
    learned, held_out = ({pair.item // 3 for pair in part} for part in (found.train, found.held_out))
    assert not learned & held_out
    assert len(learned) == round(50 * fraction)
    assert len(found.train) == 3 * len(learned)
    assert sorted(pair.item for pair in (*found.train, *found.held_out)) == list(range(150))


@pytest.mark.parametrize("source", ["RTE", "SNLI", "MNLI"])
def test_of_the_real_pairs_none_is_learned_and_tested(source, shared):
    """1,050 and 450 pairs, as in the paper: all ten accuracies of its section 6.2 are multiples of 1/450."""
    pairs = read_benchmark(shared / "data" / "datasets" / "negation-nli" / f"{source}.txt", source).pairs
    found = split(pairs, 0.7, 42)
    assert (len(found.train), len(found.held_out)) == (1050, 450)
    learned, held_out = ({(pair.text, pair.hypothesis) for pair in part} for part in (found.train, found.held_out))
    assert not learned & held_out
    assert not {pair.item // 3 for pair in found.train} & {pair.item // 3 for pair in found.held_out}


def test_triples_of_equal_pairs_stay_together():
    pairs = [*triple(0, "a", "b"), *triple(1), *triple(2, "a", "b"), *triple(3), *triple(4, "a", "b")]
    for seed in range(20):
        learned = {pair.item // 3 for pair in split(pairs, 0.6, seed).train}
        assert len(learned & {0, 2, 4}) in {0, 3}


def test_texts_that_both_parts_have_are_counted():
    """One caption with many hypotheses, as in SNLI: the pairs differ, their text does not."""
    pairs = [pair for number in range(10) for pair in triple(number, "caption")]
    assert split(pairs, 0.5, 0).shared_texts == 15
    assert split(triples(10), 0.5, 0).shared_texts == 0


def test_the_seed_decides():
    assert split(triples(50), 0.7, 1) == split(triples(50), 0.7, 1)
    assert split(triples(50), 0.7, 1) != split(triples(50), 0.7, 2)


@pytest.mark.parametrize(
    ("fraction", "said"),
    [(0, "between 0 and 1"), (1, "between 0 and 1"), (70, "between 0 and 1"), (0.01, "none is left to learn")],
)
def test_a_fraction_that_leaves_nothing_is_refused(fraction, said):
    with pytest.raises(InputError, match=f"--negation {fraction}: .*{said}"):
        split(triples(5), fraction, 0)


def test_held_out_pairs_are_read_back_with_their_types(tmp_path):
    held_out = split(triples(10), 0.7, 0).held_out
    folder = write_held_out(tmp_path, "RTE", held_out)
    found = read_benchmark(folder / "RTE.txt", "RTE").pairs
    assert [(pair.item, pair.kind, pair.text, pair.hypothesis, pair.gold) for pair in found] == [
        (pair.item, pair.kind, pair.text, pair.hypothesis, pair.gold) for pair in held_out
    ]
