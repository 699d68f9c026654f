"""Published data sets of masked words: the headers and keys of their files, own words, and their authors' own rules.

The rules are those of Ettinger's `prediction_accuracy_tests.py` and `sensitivity_tests.py`, and of LAMA's
`evaluation_metrics.py` (`get_negation_metric`): a plain loop with transformers. `nli/test_runs.py` and
`cues/test_texts.py` have those of the other sets: accuracy by type of pair, and the counts of `eval.cd-sco.pl`; the
whole of CD-SCO's way, from its four files to these counts, is in `tests/export/training/test_cues.py`.
"""

import json

import negengine as ng
import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import spearmanr
from transformers import AutoModelForMaskedLM, AutoTokenizer

TABLES = {
    "CPRAG-102": """\
item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint
0\t“Sit,” said Anna.\tShe was very fond of her\tdog\tcat\tcar\tH
1\tThe doctor was late. It rained.\tAt last he came in his\tcar\tbus\tdog\tL
2\tJohn’s shift was over.\tNow he could\tsmoke\tdance\tbark\tH
""",
    "ROLE-88": """\
item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)
7-b\tThe nurse forgot which doctor the artist had \tcalled|paid for\t0.066666667\thelped\t0.1\t0
7-a\tThe nurse forgot which artist the doctor had \thelped\t0.533333333\thelped\t0.533333333\t0.533333333
8-b\tThe man saw which lawyer the dancer had \thad|found\t0.2\tfound\t0\t0
8-a\tThe man saw which dancer the lawyer had \tfound\t0.4\tfound\t0.4\t0.4
""",
    "NEG-136-SIMP": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg
0\tA dog is (a|an)\tA dog is not (a|an)\tanimal\tcar
1\tA nurse is (a|an)\tA nurse is not (a|an)\twoman\tartist
""",
    "NEG-136-NAT": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing
0\tWith a good doctor, life is very\tWith a good doctor, life isn't very\tgood\tbad\tY
1\tOld men are often\tOld men aren't often\told\tyoung\tN
""",
}


@pytest.fixture(scope="module")
def asked(pytestconfig):
    """The log-probabilities of all tokens at the mask of a text, float64 [V], by PyTorch; and their numbers."""
    folder = pytestconfig.rootpath / "export" / "mini"
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()

    def ask(text):
        read = tokenizer(text.replace("[MASK]", tokenizer.mask_token), return_tensors="pt")
        place = int((read["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0, 0])
        with torch.inference_mode():
            return network(**read).logits[0, place].double().log_softmax(-1).numpy()

    return ask, tokenizer.get_vocab()


def rows_of(name):
    header, *lines = TABLES[name].splitlines()
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]


def test_diagnostics_are_scored_as_ettinger_does(mini, asked, tmp_path):
    for name, text in TABLES.items():
        (tmp_path / f"{name}.tsv").write_text(text, "utf-8")
    run = ng.diagnostics(mini.folder, data=tmp_path, output=tmp_path / "run", device="cpu", progress=False)
    ask, vocab = asked
    counted = {}

    def probability(context, word):
        """The full stop is added; a word that is not one entry of the vocabulary has none, so nothing is above it."""
        article = context.replace("(a|an)", "an" if word[0] in "aeiou" else "a").strip()
        return np.exp(ask(f"{article} [MASK].")[vocab[word]]) if word in vocab else np.nan

    def count(dataset, metric, right, *splits):
        for split in ("all", *splits):
            counted.setdefault((dataset, split, metric), []).append(bool(right))

    def accuracy(dataset, context, expected, *splits):
        context = context.replace("(a|an)", "an" if expected[0][0] in "aeiou" else "a").strip()
        best = np.argsort(-ask(f"{context} [MASK]."), kind="stable")
        for k in (1, 5):
            count(dataset, f"accuracy@{k}", {vocab.get(word) for word in expected} & set(best[:k].tolist()), *splits)

    for row in rows_of("CPRAG-102"):
        context, kind = f"{row['context_s1']} {row['context_s2']}", row["constraint"]
        good, *bad = (probability(context, row[name]) for name in ("expected", "within_category", "between_category"))
        accuracy("CPRAG-102", context, [row["expected"]], kind)
        count("CPRAG-102", "sensitivity", all(good > other for other in bad), kind)
        count("CPRAG-102", "sensitivity>0.01", all(good - other > 0.01 for other in bad), kind)
    role = {row["item"]: row for row in rows_of("ROLE-88")}
    for row in role.values():
        accuracy("ROLE-88", row["context"], [own.split()[0] for own in row["expected"].split("|")])
    for pair in ("7", "8"):
        fits, turned = (probability(role[f"{pair}-{side}"]["context"], role[f"{pair}-a"]["target"]) for side in "ab")
        count("ROLE-88", "sensitivity", fits > turned)
        count("ROLE-88", "sensitivity>0.01", fits - turned > 0.01)
    for name in ("NEG-136-SIMP", "NEG-136-NAT"):
        for row in rows_of(name):
            accuracy(name, row["context_aff"], [row["target_aff"]], "affirmative")
            for polarity, good, bad in (("aff", "aff", "neg"), ("neg", "neg", "aff")):
                one, other = (probability(row[f"context_{polarity}"], row[f"target_{side}"]) for side in (good, bad))
                named = [{"aff": "affirmative", "neg": "negative"}[polarity]]
                named += [f"{named[0]}-{'un' * (row['licensing'] == 'N')}licensed"] if "licensing" in row else []
                count(name, "sensitivity", one > other, *named)
                count(name, "sensitivity>0.01", one - other > 0.01, *named)
    rates = run.summary.filter(pl.col("other_condition").is_null(), condition="original")  # and no differences
    rows = rates.select("dataset", "split", "metric", "value", "n").rows()
    found = {tuple(row[:3]): row[3:] for row in rows}
    assert {key: found[key] for key in counted} == {
        key: (pytest.approx(np.mean(right)), len(right)) for key, right in counted.items()
    }
    assert 0 < np.mean([right for own in counted.values() for right in own]) < 1


PLACES = {"high_ranked": "P36", "low_ranked": "P36", "random": "P36_random"}
FACTS = [("Anna", "dog"), ("John", "car"), ("Mary", "job")]
LIST = ["dog", "cat", "car", "job", "house", "man", "woman", "doctor"]


@pytest.mark.parametrize("vocabulary", ["all", "list"])
def test_negated_facts_are_scored_as_lama_does(mini, asked, tmp_path, vocabulary):
    ask, vocab = asked
    rows = [
        {
            "sub_label": name,
            "obj_label": word,
            "uuid": f"{name}-1",
            "masked_sentences": [f"{name} likes the [MASK] ."],
            "masked_negations": [f"{name} does not like the [MASK] ."],
            "masked_misprimed": [f"Cat? {name} likes the [MASK] ."],
        }
        for name, word in FACTS
    ]
    for folder, stem in PLACES.items():
        path = tmp_path / "data" / "TREx" / folder / f"{stem}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (tmp_path / "common.txt").write_text("\n".join(LIST), "utf-8")
    kept = np.arange(len(vocab)) if vocabulary == "all" else np.array([vocab[word] for word in LIST])
    data, given = tmp_path / "data", "all" if vocabulary == "all" else str(tmp_path / "common.txt")
    run = ng.lama(mini.folder, data=data, vocabulary=given, output=tmp_path / "run", device="cpu", progress=False)
    logprobs = [[ask(row[name][0])[kept] for name in ("masked_sentences", "masked_negations")] for row in rows]
    wanted = {
        "spearman": np.mean([spearmanr(*both).statistic for both in logprobs]),
        "overlap@1": np.mean([one.argmax() == other.argmax() for one, other in logprobs]),
        "precision@1": np.mean(
            [kept[own[0].argmax()] == vocab[word] for own, (_, word) in zip(logprobs, FACTS, strict=True)]
        ),
    }
    found = run.summary.filter(dataset="TREx", condition="original", split="P36")
    values = dict(found.select("metric", "value").iter_rows())
    assert {metric: values[metric] for metric in wanted} == {
        metric: pytest.approx(value, abs=1e-4) for metric, value in wanted.items()
    }
