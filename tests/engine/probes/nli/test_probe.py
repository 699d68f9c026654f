"""Natural language inference with negation: reading, labels, scores and tables, against slow references."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
import torch
from negengine.engine.errors import InputError
from negengine.engine.inference.classifier import PairClassifier
from negengine.engine.inference.exported import load_exported
from negengine.engine.probes.nli import probe as nli
from negengine.engine.probes.nli import tables as nli_tables
from negengine.engine.probes.nli.cues import has_cue
from negengine.engine.probes.nli.labels import THREE_WAY, TWO_WAY, Label, coarsen, common_scheme, map_head
from negengine.engine.probes.nli.pairs import read_benchmark, read_original
from negengine.export.build import build
from rich.console import Console
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

BENCHMARK = "data/datasets/negation-nli"
E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("contradiction", "neutral", "entailment"), (C, N, E)),
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), (C, N, E)),
        (("entailment", "not_entailment"), (E, NOT)),
        (("Not-Entailment", "Entailment"), (NOT, E)),
        (("not entailment", "entails"), (NOT, E)),
        (("e", "n", "c"), (E, N, C)),
    ],
)
def test_names_of_heads(names, labels):
    assert map_head(names, "model") == labels


@pytest.mark.parametrize(
    "names",
    [
        ("LABEL_0", "LABEL_1", "LABEL_2"),
        ("entailment", "neutral"),
        ("entailment", "entailment", "neutral"),
        ("entailment", "neutral", "contradiction", "not_entailment"),
        ("positive", "negative"),
    ],
)
def test_a_head_that_does_not_tell_is_refused_with_the_names_seen(names):
    with pytest.raises(InputError, match=r"model: its labels are ") as caught:
        map_head(names, "model")
    assert all(repr(name) in str(caught.value) for name in names)
    assert "--labels" in str(caught.value)


def test_labels_can_be_given():
    assert map_head(("LABEL_0", "LABEL_1", "LABEL_2"), "model", "contradiction, entailment,neutral") == (C, E, N)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("entailment,neutral", "2 labels, the head of model has 3"),
        ("entailment,neutral,maybe", "give entailment, contradiction, neutral, or entailment and not_entailment"),
        ("entailment,neutral,neutral", "each once"),
    ],
)
def test_given_labels_that_do_not_fit_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        map_head(("LABEL_0", "LABEL_1", "LABEL_2"), "model", given)


@pytest.mark.parametrize(
    ("head", "gold", "scheme"),
    [
        (THREE_WAY, THREE_WAY, THREE_WAY),
        (THREE_WAY, TWO_WAY, TWO_WAY),
        (TWO_WAY, THREE_WAY, TWO_WAY),
        (TWO_WAY, TWO_WAY, TWO_WAY),
    ],
)
def test_two_way_wherever_one_side_is(head, gold, scheme):
    assert common_scheme(head, gold) == scheme


def test_neutral_and_contradiction_are_not_entailment():
    assert [coarsen(label, TWO_WAY) for label in (E, N, C, NOT)] == [E, NOT, NOT, NOT]
    assert [coarsen(label, THREE_WAY) for label in (E, N, C)] == [E, N, C]


# ---------------------------------------------------------------- the benchmark's files

TABLE_5 = {
    ("RTE", "Tneg-H"): {E: 19.8, NOT: 80.2},
    ("RTE", "T-Hneg"): {E: 9.0, NOT: 91.0},
    ("RTE", "Tneg-Hneg"): {E: 34.4, NOT: 65.6},
    ("RTE", "all"): {E: 21.1, NOT: 78.9},
    ("SNLI", "Tneg-H"): {E: 6.0, C: 32.0, N: 62.0},
    ("SNLI", "T-Hneg"): {E: 21.4, C: 41.0, N: 37.6},
    ("SNLI", "Tneg-Hneg"): {E: 22.2, C: 8.0, N: 69.8},
    ("SNLI", "all"): {E: 16.5, C: 27.0, N: 56.5},
    ("MNLI", "Tneg-H"): {E: 11.8, C: 45.8, N: 42.4},
    ("MNLI", "T-Hneg"): {E: 24.0, C: 47.6, N: 28.4},
    ("MNLI", "Tneg-Hneg"): {E: 38.6, C: 14.4, N: 47.0},
    ("MNLI", "all"): {E: 24.8, C: 35.9, N: 39.3},
}


@pytest.mark.parametrize("source", ["RTE", "SNLI", "MNLI"])
def test_label_shares_of_the_real_files_are_those_of_table_5(source, shared):
    pairs = read_benchmark(shared / BENCHMARK / f"{source}.txt", source).pairs
    assert len(pairs) == 1500
    for split in ("Tneg-H", "T-Hneg", "Tneg-Hneg", "all"):
        own = [pair.gold for pair in pairs if split in {pair.kind, "all"}]
        assert len(own) == (1500 if split == "all" else 500)
        shares = {label: round(100 * count / len(own), 1) for label, count in Counter(own).items()}
        assert shares == TABLE_5[source, split]


def test_our_copy_of_the_tables_is_the_transcript(shared):
    import tomllib

    transcript = tomllib.loads((shared / "data/published/nli-negation.toml").read_text("utf-8"))
    letters = {E: "E", NOT: "notE", C: "C", N: "N"}
    ours = nli_tables.published()
    for source, labels in (("RTE", TWO_WAY), ("SNLI", THREE_WAY), ("MNLI", THREE_WAY)):
        for split, shares in transcript["table_5"][source.lower()].items():
            assert ours[source]["labels"][split] == [shares[letters[label]] for label in labels]
        for row in transcript["table_7"]["rows"]:
            condition, _, split = row["test_pairs"].removeprefix("original_").partition("_")
            ours_row = (
                ours[source]["accuracy"]["original"]["negation" if split else "all"]
                if condition == "dev"
                else ours[source]["accuracy"]["new"][split]
            )
            assert ours_row == row[source.lower()]
        assert ours["cues"][source] == transcript["table_1_from_text"]["benchmarks"][source.lower()]


def test_letters_beyond_ascii_are_read_as_cp1252(shared):
    pairs = read_benchmark(shared / BENCHMARK / "RTE.txt", "RTE").pairs
    assert {char for pair in pairs for char in pair.text + pair.hypothesis if ord(char) > 127} == set("éá£")


HEADER = "index\tText\tHypothesis\tgold_label\r\n"


def benchmark(tmp_path, body, header=HEADER):
    path = tmp_path / "RTE.txt"
    path.write_bytes((header + body).encode("cp1252"))
    return path


def test_the_type_of_a_pair_follows_from_its_index(tmp_path):
    body = "".join(f"{i}\ta\tb\tentailment\r\n" for i in (5, 0, 1, 3, 2))
    kinds = {pair.item: pair.kind for pair in read_benchmark(benchmark(tmp_path, body), "RTE").pairs}
    assert kinds == {0: "Tneg-H", 1: "T-Hneg", 2: "Tneg-Hneg", 3: "Tneg-H", 5: "Tneg-Hneg"}


def test_a_copy_saved_as_utf8_is_read_as_such(tmp_path):
    path = tmp_path / "RTE.txt"
    path.write_bytes((HEADER + "0\tcafé\tb\tentailment\r\n").encode("utf-8-sig"))
    assert read_benchmark(path, "RTE").pairs[0].text == "café"


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ("", "", "RTE.txt:1: the file is empty"),
        (HEADER, "", "RTE.txt:2: no pairs"),
        ("index\tText\tgold_label\r\n", "0\ta\tentailment", "RTE.txt:1: no column sentence2 or Hypothesis; the header"),
        ("Text\tHypothesis\tgold_label\r\n", "a\tb\tentailment", "RTE.txt:1: no column index"),
        ("index\tText\tHypothesis\r\n", "0\ta\tb", "RTE.txt:1: no column gold_label or label"),
        (
            HEADER,
            "0\ta\tb\tentailment\r\n1\ta\tb\tperhaps\r\n",
            "RTE.txt:3: unknown label 'perhaps'; RTE has entailment",
        ),
        (HEADER, "0\ta\tb\tneutral\r\n", "RTE.txt:2: unknown label 'neutral'; RTE has entailment, not_entailment"),
        (HEADER, "0\ta\tb\r\n", "RTE.txt:2: 3 fields, the header has 4"),
        (HEADER, "x\ta\tb\tentailment\r\n", "RTE.txt:2: index 'x' is no number"),
        (HEADER, "0\ta\tb\tentailment\r\n0\tc\td\tentailment", "RTE.txt:3: index 0 stands already in line 2"),
        (HEADER, "0\ta\t \tentailment\r\n", "RTE.txt:2: the hypothesis is empty"),
        (HEADER, "0\t\tb\tentailment\r\n", "RTE.txt:2: the text is empty"),
    ],
)
def test_bad_files_are_refused_in_one_line_with_file_and_line(header, body, message, tmp_path):
    with pytest.raises(InputError) as caught:
        read_benchmark(benchmark(tmp_path, body, header), "RTE")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((HEADER + "0\ta\tb\tentailment\r\n").encode("utf-16"), "RTE.txt:1: byte 0x00"),
        (
            HEADER.encode() + b"0\ta\tb\tentailment\r\n1\ta\x81\tb\tentailment\r\n",
            "RTE.txt:3: byte 0x81 is not utf-8 or",
        ),
    ],
)
def test_other_encodings_are_refused(content, message, tmp_path):
    (tmp_path / "RTE.txt").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_benchmark(tmp_path / "RTE.txt", "RTE")
    assert message in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"SNLI\.txt: cannot be read"):
        nli.read_sets(tmp_path, {}, ["SNLI"])


def test_an_unknown_source_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"unknown source 'QNLI'; known are RTE, SNLI, MNLI"):
        nli.read_sets(tmp_path, {}, ["QNLI"])


# ---------------------------------------------------------------- GLUE's layouts

GLUE_RTE = 'index\tsentence1\tsentence2\tlabel\n0\tIt is.\tIt’s not "so\n1\tIt was.\tIt was.\tentailment\n'
GLUE_MNLI = "\t".join(
    [
        *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
        *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "label2", "gold_label"),
    ]
)
SNLI_OWN = "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tlabel1\tlabel2"


def test_glue_rte_without_quoting(tmp_path):
    (tmp_path / "dev.tsv").write_text(GLUE_RTE.replace('"so', '"so\tnot_entailment'), "utf-8")
    pairs = read_original(tmp_path / "dev.tsv", "RTE").pairs
    assert [(pair.hypothesis, pair.gold) for pair in pairs] == [('It’s not "so', NOT), ("It was.", E)]


def test_glue_mnli_takes_the_gold_label_not_an_annotators(tmp_path):
    row = "0\t1\t1n\tfiction\t( a )\t( b )\t(A)\t(B)\ta\tb\tneutral\tneutral\tcontradiction"
    (tmp_path / "dev_matched.tsv").write_text(f"{GLUE_MNLI}\n{row}\n")
    (pair,) = read_original(tmp_path / "dev_matched.tsv", "MNLI").pairs
    assert (pair.text, pair.hypothesis, pair.gold) == ("a", "b", C)


def test_snli_pairs_without_consensus_are_left_out_and_counted(tmp_path):
    (tmp_path / "dev.txt").write_text(f"{SNLI_OWN}\n-\tx\ta\tb\tneutral\t\nneutral\tx\tc\td\tneutral\t\n")
    pairs = read_original(tmp_path / "dev.txt", "SNLI")
    assert ([pair.text for pair in pairs.pairs], pairs.skipped) == (["c"], 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"index\tsentence1\tsentence2\n0\ta\tb\n", "dev.tsv:1: no column gold_label or label; the header has index"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\xe9\tb\tentailment\n", "dev.tsv:2: byte 0xe9 is not utf-8"),
        (b"sentence1\tsentence2\tlabel\na\tb\t-\n", "dev.tsv:2: no row has a gold label"),
    ],
)
def test_bad_original_sets_are_refused(content, message, tmp_path):
    (tmp_path / "dev.tsv").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_original(tmp_path / "dev.tsv", "RTE")
    assert message in str(caught.value)


# ---------------------------------------------------------------- a whole run against a slow reference

SENTENCE = "the man is not in a park no one sleeps dog runs never outside . woman does sleep run two people are"
WORDS = SENTENCE.split()


def save_checkpoint(folder, names, seed):
    ids = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    backend = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]").save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(ids),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


HEADS = {"three-way": ("contradiction", "entailment", "neutral"), "two-way": ("not_entailment", "entailment")}


@pytest.fixture(scope="module", params=HEADS)
def classifier(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    checkpoint = save_checkpoint(folder / "tiny", HEADS[request.param], seed=3)
    return checkpoint, load_exported(
        build(str(checkpoint), folder / "out", task="text-classification"), task="text-classification"
    )


def random_sentence(random):
    return " ".join(random.choice(WORDS, random.integers(2, 12)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Random pairs: 90 new and 60 original ones of RTE, 60 new ones of SNLI; some are longer than 16 tokens."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    golds = {"RTE": TWO_WAY, "SNLI": THREE_WAY}
    for source, n in (("RTE", 90), ("SNLI", 60)):
        rows = [
            f"{i}\t{random_sentence(random)}\t{random_sentence(random)}\t{random.choice(golds[source])}\r\n"
            for i in range(n)
        ]
        (folder / f"{source}.txt").write_bytes((HEADER + "".join(rows)).encode("cp1252"))
    rows = [f"{i}\t{random_sentence(random)}\t{random_sentence(random)}\t{random.choice(TWO_WAY)}\n" for i in range(60)]
    (folder / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rows))
    return folder


LONGEST = 16


@pytest.fixture(scope="module")
def finished(classifier, data, tmp_path_factory):
    _, exported = classifier
    sets = nli.read_sets(data, {"RTE": data / "dev.tsv"}, ["RTE", "SNLI"])
    evaluation = nli.plan(exported, sets, max_length=LONGEST)
    folder = tmp_path_factory.mktemp("run") / "nli"
    summary = nli.run(evaluation, PairClassifier(exported, batch_tokens=100), folder)
    return folder, summary


def slow_rows(checkpoint, data):
    """Every pair through transformers, one at a time: (source, condition, kind, item, negation, gold, label, cut)."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = BertForSequenceClassification.from_pretrained(checkpoint).eval()
    files = [("RTE", "original", "dev.tsv"), ("RTE", "new", "RTE.txt"), ("SNLI", "new", "SNLI.txt")]
    for source, condition, name in files:
        for line in (data / name).read_text("cp1252").strip().split("\n")[1:]:
            index, text, hypothesis, gold = line.split("\t")
            whole = tokenizer(text, hypothesis)["input_ids"]
            cut = tokenizer(text, hypothesis, truncation="longest_first", max_length=LONGEST, return_tensors="pt")
            with torch.inference_mode():
                label = model.config.id2label[int(model(**cut).logits.argmax())]
            kind = ("Tneg-H", "T-Hneg", "Tneg-Hneg")[int(index) % 3] if condition == "new" else ""
            negation = has_cue(text) or has_cue(hypothesis)
            yield source, condition, kind, int(index), negation, gold, label, len(whole) > LONGEST


def slow_correct(source, gold, label, checkpoint):
    two_way = source == "RTE" or BertConfig.from_pretrained(checkpoint).num_labels == 2
    if two_way:
        return (gold == "entailment") == (label == "entailment")
    return gold == label


def cell(summary, *key):
    columns = ("dataset", "condition", "split", "metric")
    (row,) = summary.filter(*(pl.col(c) == v for c, v in zip(columns, key, strict=True))).to_dicts()
    return row


def test_items_equal_a_slow_reference(classifier, data, finished):
    items = pl.read_parquet(finished[0] / "items.parquet")
    found = items.select("dataset", "condition", "split", "item", "negation", "gold", "predicted", "truncated").rows()
    assert found == list(slow_rows(classifier[0], data))
    assert 0 < items["truncated"].sum() < len(items)
    assert items["predicted"].n_unique() > 1


def test_accuracies_majorities_and_drops_equal_a_slow_reference(classifier, data, finished):
    rows = list(slow_rows(classifier[0], data))
    _, summary = finished

    def outcomes(source, condition, split):
        own = [
            r
            for r in rows
            if r[:2] == (source, condition) and (split in {r[2], "all"} or (split == "negation" and r[4]))
        ]
        golds = [r[5] for r in own]
        if source != "RTE" and BertConfig.from_pretrained(classifier[0]).num_labels == 2:
            golds = ["entailment" if gold == "entailment" else "not" for gold in golds]
        correct = [slow_correct(source, r[5], r[6], classifier[0]) for r in own]
        return len(own), sum(correct) / len(own), max(Counter(golds).values()) / len(own)

    for source, condition, splits in (
        ("RTE", "original", ("all", "negation")),
        ("RTE", "new", ("Tneg-H", "T-Hneg", "Tneg-Hneg", "all")),
        ("SNLI", "new", ("Tneg-H", "T-Hneg", "Tneg-Hneg", "all")),
    ):
        for split in splits:
            n, accuracy, majority = outcomes(source, condition, split)
            row = cell(summary, source, condition, split, "accuracy")
            assert (row["n"], row["value"]) == (n, pytest.approx(accuracy))
            assert row["low"] < row["value"] < row["high"]
            assert cell(summary, source, condition, split, "majority")["value"] == pytest.approx(majority)
    before, after = outcomes("RTE", "original", "all")[1], outcomes("RTE", "new", "T-Hneg")[1]
    assert cell(summary, "RTE", "new", "T-Hneg", "drop")["value"] == pytest.approx(before - after)
    assert cell(summary, "RTE", "new", "T-Hneg", "relative_drop")["value"] == pytest.approx(1 - after / before)
    with_cue = outcomes("RTE", "original", "negation")[1]
    assert cell(summary, "RTE", "new", "all", "drop_from_negation")["value"] == pytest.approx(
        with_cue - outcomes("RTE", "new", "all")[1]
    )


def test_probabilities_are_the_softmax_of_the_predicted_label(classifier, data, finished):
    checkpoint, _ = classifier
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = BertForSequenceClassification.from_pretrained(checkpoint).eval()
    items = pl.read_parquet(finished[0] / "items.parquet").filter(pl.col("dataset") == "SNLI")
    lines = (data / "SNLI.txt").read_text("cp1252").strip().split("\n")[1:]
    for line, probability in zip(lines[:9], items["probability"][:9], strict=True):
        _, text, hypothesis, _ = line.split("\t")
        inputs = tokenizer(text, hypothesis, truncation="longest_first", max_length=LONGEST, return_tensors="pt")
        with torch.inference_mode():
            assert probability == pytest.approx(model(**inputs).logits.softmax(-1).max().item(), abs=1e-5)


def test_a_second_run_does_nothing_and_returns_the_same(classifier, data, finished):
    folder, summary = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}
    sets = nli.read_sets(data, {"RTE": data / "dev.tsv"}, ["RTE", "SNLI"])
    again = nli.run(nli.plan(classifier[1], sets, max_length=LONGEST), None, folder)
    assert again.equals(summary)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_a_folder_made_with_other_pairs_is_refused(classifier, data, finished):
    sets = nli.read_sets(data, {}, ["RTE"])
    with pytest.raises(InputError, match=r"nli was made with .*choose another --output"):
        nli.run(nli.plan(classifier[1], sets, max_length=LONGEST), None, finished[0])


def test_a_sentence_with_padding_is_refused_with_file_and_line(classifier, tmp_path):
    path = benchmark(tmp_path, "0\tthe man\tthe [PAD] man\tentailment\r\n")
    evaluation = nli.plan(classifier[1], [read_benchmark(path, "RTE")])
    with pytest.raises(InputError, match=r"RTE\.txt:2: holds the padding token"):
        nli.run(evaluation, PairClassifier(classifier[1]), tmp_path / "run")


def test_the_paper_cuts_at_128_tokens_and_a_shorter_model_at_its_own_length(classifier):
    assert nli.plan(classifier[1], []).max_length == 40
    assert nli.PAPER_LENGTH == 128


# ---------------------------------------------------------------- the summary of hand-made items


def items_of(rows):
    """(condition, item, split, negation, gold, answer) of SNLI, three-way."""
    return pl.DataFrame(
        [
            ("SNLI", condition, item, split, negation, gold, answer, 0.5, gold, answer, gold == answer, False)
            for condition, item, split, negation, gold, answer in rows
        ],
        schema=nli._ITEMS,
        orient="row",
    )


def new_triples(outcomes):
    """One triple of new pairs for each (a, b, c): whether Tneg-H, T-Hneg and Tneg-Hneg are right."""
    for triple, results in enumerate(outcomes):
        for k, right in enumerate(results):
            yield "new", 3 * triple + k, nli.KINDS[k], True, "neutral", "neutral" if right else "entailment"


def test_mcnemar_on_the_same_original_pairs():
    """Tneg-H alone is right in 6 triples, T-Hneg alone in 1: p = 2 · (C(7,0) + C(7,1)) / 2⁷ = 16/128 = 0.125.

    Tneg-Hneg is always right. Tneg-H loses 3 to it (1 + 2): p = 2/2³ = 0.25; T-Hneg loses 8: p = 2/2⁸.
    Holm over three: 3 · 2/256, then 2 · 0.125 = 0.25, then 1 · 0.25 = 0.25.
    """
    outcomes = [(True, False, True)] * 6 + [(False, True, True)] + [(True, True, True)] * 4 + [(False, False, True)] * 2
    summary = nli.summarise(items_of(new_triples(outcomes)))
    p = {
        "Tneg-H vs T-Hneg": (0.125, 0.25),
        "Tneg-H vs Tneg-Hneg": (0.25, 0.25),
        "T-Hneg vs Tneg-Hneg": (2 / 256, 6 / 256),
    }
    for split, (raw, adjusted) in p.items():
        assert cell(summary, "SNLI", "new", split, "mcnemar_p:accuracy")["value"] == pytest.approx(raw)
        assert cell(summary, "SNLI", "new", split, "mcnemar_p_holm:accuracy")["value"] == pytest.approx(adjusted)
    difference = cell(summary, "SNLI", "new", "Tneg-H vs T-Hneg", "difference:accuracy")
    assert (difference["value"], difference["n"]) == (pytest.approx(5 / 13), 13)


def test_interval_of_one_type_is_wilsons_and_of_all_pairs_counts_triples():
    """All three pairs of a triple agree, so 30 pairs are no more than 10 draws: the interval is as for 5 of 10."""
    summary = nli.summarise(items_of(new_triples([(True,) * 3] * 5 + [(False,) * 3] * 5)))
    one, every = (cell(summary, "SNLI", "new", split, "accuracy") for split in ("Tneg-H", "all"))
    wilson = stats.binomtest(5, 10).proportion_ci(method="wilson")
    assert (one["low"], one["high"]) == (pytest.approx(wilson.low), pytest.approx(wilson.high))
    assert every["n"] == 30
    assert every["high"] - every["low"] > 0.9 * (one["high"] - one["low"])


def test_negation_share_and_the_drop_from_pairs_with_negation():
    """Four original pairs: one with a cue, wrong; three without, right. New: one triple, all right."""
    original = [("original", i, "", i == 0, "neutral", "neutral" if i else "entailment") for i in range(4)]
    summary = nli.summarise(items_of([*original, *new_triples([(True, True, True)])]))
    assert cell(summary, "SNLI", "original", "all", "negation_share")["value"] == 0.25
    assert cell(summary, "SNLI", "new", "all", "drop")["value"] == pytest.approx(0.75 - 1)
    assert cell(summary, "SNLI", "new", "all", "drop_from_negation")["value"] == pytest.approx(0 - 1)
    assert cell(summary, "SNLI", "new", "all", "relative_drop")["value"] == pytest.approx(1 - 1 / 0.75)
    # Nothing can drop relative to an accuracy of zero.
    assert "relative_drop_from_negation" not in set(summary["metric"])


def test_truncated_share_counts_pairs():
    items = items_of(new_triples([(True, True, True)])).with_columns(truncated=pl.Series([True, False, False]))
    summary = nli.summarise(items)
    assert cell(summary, "SNLI", "new", "all", "truncated")["value"] == pytest.approx(1 / 3)
    assert cell(summary, "SNLI", "new", "Tneg-H", "truncated")["value"] == 1


def shown(table):
    console = Console(width=240)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_tables_show_our_figures_beside_the_papers(finished):
    _, summary = finished
    text = shown(nli_tables.accuracy_table(summary, "tiny", "bert"))
    accuracy = cell(summary, "RTE", "new", "T-Hneg", "accuracy")["value"]
    line = next(line for line in text.splitlines() if "RTE T-Hneg" in line)
    assert f"{100 * accuracy:.1f}" in line
    assert "39.2" in line  # BERT base, RTE, T-Hneg in Table 7
    assert "RTE dev, cues" in text
    assert "(91.0)" in shown(nli_tables.label_table(summary))
    assert "T-Hneg vs Tneg-Hneg" in shown(nli_tables.comparison_table(summary))


def test_no_paper_column_for_a_family_that_it_did_not_test(finished):
    assert "paper" not in shown(nli_tables.accuracy_table(finished[1], "tiny", "electra"))


def test_the_drops_interval_is_welchs_with_a_triple_as_one_draw():
    """Eight original pairs, six right; four triples of which 3, 3, 1 and 0 pairs are right."""
    original = [("original", i, "", False, "neutral", "neutral" if i < 6 else "entailment") for i in range(8)]
    triples = [(True, True, True), (True, True, True), (True, False, False), (False, False, False)]
    row = cell(nli.summarise(items_of([*original, *new_triples(triples)])), "SNLI", "new", "all", "drop")
    welch = stats.ttest_ind([1] * 6 + [0] * 2, [1, 1, 1 / 3, 0], equal_var=False).confidence_interval()
    assert (row["low"], row["high"]) == (pytest.approx(welch.low), pytest.approx(welch.high))
    assert row["value"] == pytest.approx(6 / 8 - 7 / 12)
