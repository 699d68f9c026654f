"""The pairs of a training: files of GLUE, those of the hub, and pairs with negation that are learned or held out."""

import json
from dataclasses import replace

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.nli.nli_pairs import KINDS, Label, Pair, read_benchmark
from negengine.engine.library.training_options import NliOptions
from negengine.export.training.nli_pairs import read_data, split, write_held_out

HEADER = "index\tsentence1\tsentence2\tlabel\n"


def rows(n):
    """A file of RTE with `n` pairs and both labels in turn."""
    labels = ("entailment", "not_entailment")
    return HEADER + "".join(f"{i}\ttext {i}\thypothesis {i}\t{labels[i % 2]}\n" for i in range(n))


def write(folder, dev="dev.tsv", n=6):
    for name in ("train.tsv", dev):
        (folder / name).write_text(rows(n), "utf-8")
    return folder


def read(source, data, **options):
    given = NliOptions(model="m", output="out", task=source.lower(), data=data, **options)
    return read_data(source, given, lambda _: None)


def test_a_limit_draws_pairs_at_random_by_the_seed(tmp_path):
    write(tmp_path, "dev_matched.tsv", n=100)  # as MNLI's is called
    one, same, other = (read("RTE", tmp_path, limit=10, seed=seed).original for seed in (1, 1, 2))
    assert (len(one), one) == (10, sorted(one, key=lambda pair: int(pair[0].split()[1])))
    assert one == same != other


def test_json_lines_of_the_authors_are_read_as_the_table_of_glue(tmp_path, shared):
    """The keys of multinli_1.0_train.jsonl, and of data sets on the hub; a pair without a majority has no label."""
    keys = ("gold_label", "sentence1", "sentence2"), ("label", "premise", "hypothesis")
    for (label, text, hypothesis), name in zip(keys, ("multinli_1.0", "mnli_en"), strict=True):
        folder = tmp_path / name
        folder.mkdir()
        more = {"annotator_labels": ["neutral"], "genre": "fiction", "pairID": "1n", "idx": 3}
        lines = [
            json.dumps(more | {label: own, text: f"A dog, {number}.", hypothesis: 'A "pet".'})
            for number, own in enumerate(("entailment", "neutral", "contradiction", "-"))
        ]
        for file in ("train", "dev_mismatched", "dev_matched" if name[:2] == "mu" else "valid"):
            (folder / f"{name}_{file}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        found = read("MNLI", folder)
        labels = [Label(own) for own in ("entailment", "neutral", "contradiction")]
        assert found.original == [
            (f"A dog, {number}.", 'A "pet".', found.labels.index(own)) for number, own in enumerate(labels)
        ]
        assert "matched" not in found.dev_file.name or "mis" not in found.dev_file.name
    (folder / "mnli_en_train.jsonl").write_text('{"premise": "A.", "hypothesis": 3, "label": "neutral"}\n')
    with pytest.raises(InputError, match=r"mnli_en_train\.jsonl:1: no column sentence2, Hypothesis, hypothesis"):
        read("MNLI", folder)
    real = read("MNLI", shared / "data" / "datasets" / "mnli")
    assert (len(real.original), len(real.dev)) == (7107, 1777)


def test_pairs_with_negation_are_added_to_the_training_alone(tmp_path, negation):
    without = read("RTE", write(tmp_path))
    found = read("RTE", tmp_path, negation=0.7, negation_data=negation)
    sizes = [len(own.examples()) for own in (without, found)]
    assert (*sizes, len(found.negation.train), len(found.dev)) == (6, 6 + 126, 126, 6)
    assert found.identity.items() - without.identity.items() == {
        ("negation", 0.7),
        ("negation sha256", found.identity["negation sha256"]),
    }
    (tmp_path / "dev.tsv").write_text(rows(1))
    after = read("RTE", tmp_path).identity
    assert {key for key in after if without.identity[key] != after[key]} == {"dev sha256"}


def test_bad_files_are_refused_with_file_and_line_and_missing_ones_named(tmp_path):
    (write(tmp_path) / "train.tsv").unlink()
    for content, said in (
        (None, r"holds no train.tsv or \*train.jsonl; --data is GLUE's folder of RTE"),
        (f"{HEADER}0\ta\tb\t-\n", "train.tsv:2: no row has a gold label"),
        (rows(6), r"nowhere: no such file or folder; give another --negation-data"),
    ):
        if content is not None:
            (tmp_path / "train.tsv").write_text(content, "utf-8")
        with pytest.raises(InputError, match=said):
            read("RTE", tmp_path, negation=0.7, negation_data=tmp_path / "nowhere")


def triple(number, text="", hypothesis=""):
    text, hypothesis = text or f"t{number}", hypothesis or f"h{number}"
    sides = ((f"not {text}", hypothesis), (text, f"not {hypothesis}"), (f"not {text}", f"not {hypothesis}"))
    return [
        Pair(3 * number + i, KINDS[i], one, other, Label.ENTAILMENT, f"RTE.txt:{3 * number + i + 2}")
        for i, (one, other) in enumerate(sides)
    ]


def triples(n, text=""):
    return [pair for number in range(n) for pair in triple(number, text)]


def divided(pairs, fraction, seed):
    """The sizes of the two parts; no triple and no sentence is in both, and all pairs are in one of them."""
    found = split(pairs, fraction, seed)
    parts = found.train, found.held_out
    assert {pair.item for part in parts for pair in part} == {pair.item for pair in pairs}
    assert not set.intersection(*({pair.item // 3 for pair in part} for part in parts))
    sides = ([side for pair in part for side in (pair.text, pair.hypothesis)] for part in parts)
    assert not set.intersection(*({" ".join(side.split()).lower() for side in part} for part in sides))
    return tuple(map(len, parts))


def test_no_triple_and_no_sentence_is_in_both_parts_and_the_seed_decides():
    pairs = triples(50)
    assert (divided(pairs, 0.1, 1), divided(pairs, 0.7, 1)) == ((15, 135), (105, 45))
    assert split(pairs, 0.7, 1) == split(pairs, 0.7, 1) != split(pairs, 0.7, 2)
    for text, fraction in (("", 0.01), ("caption", 0.5)):
        with pytest.raises(InputError, match=f"--negation {fraction}: .*none is left to learn"):
            split(triples(5, text), fraction, 0)
    # One caption with many hypotheses, as in SNLI: the pairs differ, their text does not, or only by its case.
    pairs = [*triple(0, "a", "b"), *triple(1), *triple(2, " A", "x"), *triple(3), *triple(4, "b", "y"), *triple(5)]
    for seed in range(20):
        divided(pairs, 0.6, seed)


def test_of_the_real_pairs_none_is_learned_and_tested(shared):
    """1,050 and 450 pairs, as in the paper: all ten accuracies of its section 6.2 are multiples of 1/450."""
    for source in ("RTE", "SNLI", "MNLI"):
        pairs = read_benchmark(shared / "data" / "datasets" / "negation-nli" / f"{source}.txt", source).pairs
        assert divided(pairs, 0.7, 42) == (1050, 450), source


def test_pairs_of_dev_and_held_out_pairs_with_a_sentence_that_is_learned_are_counted(tmp_path):
    """The new pairs were made from the training and the development split, as in the paper: T and H come back."""
    write(tmp_path)
    dev = [("text 0", "new"), ("t0", "new"), ("new", "H0"), ("t0", "hypothesis 1"), ("t9", "text  5"), ("new", "new")]
    held_out = triples(9)  # t9 is in neither part
    lines = [f"{i}\t{t}\t{h}\tentailment\n" for i, (t, h) in enumerate(dev)]
    (tmp_path / "dev.tsv").write_text("".join([HEADER, *lines]))
    held_out[-2] = replace(held_out[-2], text="hypothesis 3")
    folder = write_held_out(tmp_path, "RTE", held_out)
    kept = read_benchmark(folder / "RTE.txt", "RTE").pairs  # they are read back with their types
    one, other = ([replace(pair, location="", id="") for pair in pairs] for pairs in (kept, held_out))
    assert one == other
    tried = (read("RTE", tmp_path, negation=0.8, negation_data=folder, seed=seed) for seed in range(40))
    found = next(own for own in tried if {pair.item // 3 for pair in own.negation.train} & {0, 8} == {0})
    held_out = {"pairs": len(found.negation.held_out), "train": 1, "added": 0}
    assert found.shared == {"dev": {"pairs": 6, "train": 3, "added": 3}, "held out": held_out}
    said = "dev: of 6 pairs, 3 share a sentence with a pair of train.tsv"
    assert found.notes[0] == f"{said}, 3 with an added pair"
    without = read("RTE", tmp_path, evaluate=True, negation_data=folder)
    assert without.shared["new"] == {"pairs": 27, "train": 1, "added": 0}
    assert without.notes[0] == said
