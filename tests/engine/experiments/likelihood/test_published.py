"""Published minimal pairs: the header lines and keys of their files, own words, and their authors' own rules.

The rules are those of the code that the authors publish: `lm_sling.py` and `utils.py` of SLING, `scorer.py` of RuBLiMP,
`evaluation.py` of TurBLiMP, `metrics.py` and `run.py` of ZhoBLiMP, `score.py` of MultiBLiMP. Of BLiMP and JBLiMP the
papers say it: the good sentence is the more probable one.
"""

import json

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.sources import sources
from negengine.engine.experiments.likelihood import likelihood as module
from negengine.engine.experiments.likelihood.likelihood import Likelihood, likelihood
from transformers import AutoModelForCausalLM, AutoTokenizer

PAIRS = [
    ("Anna is happy.", "Anna are happy."),
    ("He smokes.", "He smoke all day."),
    ("She likes to dance.", "She likes to dances."),
    ("They are happy.", "They are happy."),
]
PREFIX = {"one_prefix_prefix": "Anna", "one_prefix_word_good": "is", "one_prefix_word_bad": "are"}
TWO = {"two_prefix_prefix_good": "Anna", "two_prefix_prefix_bad": "All", "two_prefix_word": "is"}
FLAGS = dict.fromkeys(("simple_LM_method", "one_prefix_method", "two_prefix_method", "lexically_identical"), True)


def blimp(field, term, uid, **more):
    return more | {"field": field, "linguistics_term": term, "UID": uid, **FLAGS, "pairID": "0"}


TUR = "good_sentence;bad_sentence;good_cue;bad_cue;critical_region;phenomenon"
RU = "id,source_sentence,target_sentence,source_word,target_word,level,phenomenon,PID,subtype,domain,tree_depth"
MULTI = "\tsen\twrong_sen\tgrammatical_feature\tlang"
# Set → its files: what a row has beside its two sentences, as keys of JSON or as a line of the table.
FILES = {
    "blimp": {
        "anaphor.jsonl": blimp("morphology", "anaphor_agreement", "anaphor", **PREFIX),
        "npi.jsonl": blimp("syntax_semantics", "npi_licensing", "npi", **TWO),
        "binding.jsonl": blimp("syntax/semantics", "binding", "case_2"),
        "animate.jsonl": blimp("syntax", "s-selection", "animate"),
        "causative.jsonl": blimp("syntax", "argument_structure", "causative", crucial_item="x"),
        "distractor.jsonl": blimp("morphology", "subject_verb_agreement", "far", dependency_length=2),
    },
    "zhoblimp": {"you_yige.jsonl": {"UID": "you_yige", "phenomenon": "nominal_expression", "pairID": 0}},
    "sling": {
        f"{name}.jsonl": {"phenomenon": "Anaphor", "paradigm": "Plural", "pair_ID": 1, "field": "syntax"}
        for name in ("menself_male", "menself_female")
    },
    "jblimp": {
        "pairs.jsonl": {
            "ID": 0,
            "type": "acceptability",
            "phenomenon": "island effects",
            "phenomenon-2": None,
            "paradigm": "complex NP",
        }
    },
    "turblimp": {
        "augmented_argument_structure_ditransitive.csv": f"{TUR}\n{{0}};{{1}};is;are;is;argument_structure\n",
        "augmented_argument_structure_transitive.csv": f"{TUR}\n{{0}};{{1}};is;are;is;argument_structure  \n",
        "augmented_quantifiers.csv": f"{TUR};subtype\n{{0}};{{1}};is;are;is;quantifiers  ;plural\n",
    },
    "rublimp": {"negative_concord.csv": f'{RU}\n4002,"{{0}}","{{1}}",is,are,Syntax,Negation,neg_conc,x,press,2\n'},
    "multiblimp": {"nld.tsv": f"{MULTI}\n0\t{{0}}\t{{1}}\tSV-#\tnld\n"},
}
KEYS = {
    "jblimp": ("good_sentence", "bad_sentence"),
    "turblimp": ("good_sentence", "bad_sentence"),
    "rublimp": ("source_sentence", "target_sentence"),
    "multiblimp": ("sen", "wrong_sen"),
}
SPLITS = {
    "blimp": {
        *("field: morphology", "field: syntax", "field: syntax_semantics", "linguistics_term: anaphor_agreement"),
        *("linguistics_term: npi_licensing", "linguistics_term: binding", "linguistics_term: argument_structure"),
        *("linguistics_term: subject_verb_agreement", "UID: anaphor", "UID: npi", "UID: case_2", "UID: animate"),
        *("UID: causative", "UID: far"),
    },
    "zhoblimp": {"phenomenon: nominal_expression", "UID: you_yige"},
    "sling": {
        *("phenomenon: Anaphor", "paradigm: Plural", "file name: menself_male", "file name: menself_female"),
    },
    "jblimp": {"phenomenon: island effects", "paradigm: complex NP"},
    "turblimp": {
        *("phenomenon: argument_structure", "phenomenon: quantifiers", "file name: augmented_quantifiers"),
        "file name: augmented_argument_structure_ditransitive",
        "file name: augmented_argument_structure_transitive",
    },
    "rublimp": {"level: Syntax", "phenomenon: Negation", "PID: neg_conc"},
    "multiblimp": {"SV-#"},
}

CLUSTERS = {"blimp": "UID", "zhoblimp": "UID", "sling": "file name", "turblimp": "file name", "jblimp": "paradigm"}


def write(folder, name):
    good, bad = KEYS.get(name, ("sentence_good", "sentence_bad"))
    for file, form in FILES[name].items():
        if isinstance(form, dict):
            rows = [{good: one, bad: other, **form} for one, other in PAIRS]
            (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        else:
            header, row = form.splitlines()
            (folder / file).write_text("\n".join([header, *(row.format(*pair) for pair in PAIRS)]) + "\n", "utf-8")


def share(goods, bads, counts):
    return sum(counts(good, bad) for good, bad in zip(goods, bads, strict=True)) / len(goods)


def test_every_published_set_of_pairs_has_its_files_here():
    assert {name for name, source in sources().items() if source.probe == "likelihood"} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_published_set_is_read_and_scored_as_its_authors_do(name, causal_folder, causal_model, tmp_path):
    """`accuracy` is their share of larger sums, `accuracy_per_token` that of smaller perplexities."""
    (tmp_path / name).mkdir()
    write(tmp_path / name, name)
    run = likelihood(causal_model, tmp_path / name, output=tmp_path / "run", progress=False)
    tokenizer = AutoTokenizer.from_pretrained(causal_folder / "checkpoint")
    network = AutoModelForCausalLM.from_pretrained(causal_folder / "checkpoint").eval()

    def logprobs(text):
        ids = tokenizer(text, return_tensors="pt")["input_ids"][:, :-1]  # a token before the text, as RuBLiMP puts one
        with torch.inference_mode():
            found = network(ids).logits[0, :-1].double().log_softmax(-1)
        return found.gather(1, ids[0, 1:, None])[:, 0]

    sums, means = (
        [[score(logprobs(pair[side])) for pair in PAIRS] for side in (0, 1)] for score in (torch.sum, torch.mean)
    )
    all_rows = {row["metric"]: row["value"] for row in run.summary.filter(split="all").to_dicts()}
    assert all_rows["accuracy"] == pytest.approx(share(*sums, lambda good, bad: good > bad))
    assert all_rows["accuracy_per_token"] == pytest.approx(share(*means, lambda good, bad: good > bad))
    assert all_rows["ties"] == pytest.approx(1 / len(PAIRS))
    if name == "sling":  # a pair fails where the good sentence is the worse one: a tie does not
        rule = share(*means, lambda good, bad: not good < bad)
        assert all_rows["accuracy_per_token"] + all_rows["ties"] == pytest.approx(rule)
    assert set(run.labelled["group"]) == {"all", *SPLITS[name]}
    assert run.columns.cluster == CLUSTERS.get(name)
    n = dict(run.labelled.filter(metric="ties").select("group", "n").iter_rows())
    assert n["all"] == len(PAIRS) * len(FILES[name])


def test_published_accuracies_stand_beside_those_of_the_same_pairs(causal_model, tmp_path, monkeypatch):
    """In the layout of BLiMP's models_summary.jsonl; nothing stands beside a part of what it is about."""
    (tmp_path / "blimp").mkdir()
    write(tmp_path / "blimp", "blimp")
    sets = [("npi", "npi_licensing", 0.7, 0.8), ("far", "subject_verb_agreement", 0.6, 0.9)]
    sets += [("near", "subject_verb_agreement", 0.5, 0.7), ("overall", "npi_licensing", 0.71, 0.81)]
    sets += [("overall", "subject_verb_agreement", 0.55, 0.8), ("overall", "overall", 0.6, 0.83)]
    keys = ("UID", "linguistics_term", "lstm", "gpt2")
    file = tmp_path / "published"
    file.write_text("".join(json.dumps(dict(zip(keys, own, strict=True))) + "\n" for own in sets), "utf-8")
    run = likelihood(causal_model, tmp_path / "blimp", published=file, output=tmp_path / "run", progress=False)
    [table] = run.tables()
    assert [column.heading for column in table.columns][-3:] == ["chance", "lstm", "gpt2"]
    assert set(table.frame["chance"]) == {0.5}
    [drawn] = Likelihood.sections(run)[0].figures
    assert (drawn.plot.guide, "the dashed line is chance, 50 %" in drawn.caption) == (50, True)
    shown = {
        (row["column"], row["split"]): (row["published lstm"], row["published gpt2"]) for row in table.frame.to_dicts()
    }
    wanted = {("UID", "npi"): (0.7, 0.8), ("UID", "far"): (0.6, 0.9)}
    wanted["linguistics_term", "npi_licensing"] = (0.71, 0.81)
    assert {group: own for group, own in shown.items() if own != (None, None)} == wanted
    own = {"output": tmp_path / "run", "progress": False}
    with pytest.raises(InputError, match="published: it says nothing of the groups of blimp; give one that does"):
        likelihood(causal_model, tmp_path / "blimp", published=file, group="field", **own)
    # Those that come with a data set, if its name stands for it; a folder of its name is read, and a note says so.
    monkeypatch.setattr(module, "published_accuracies", lambda data, _: file if data == "blimp" else None)
    monkeypatch.chdir(tmp_path)
    asked = Likelihood(data="blimp").stage(causal_model.exported).experiment
    assert ("UID", "npi", 0.8) in asked.figures["gpt2"]
    hides = "blimp: the file or folder of this name here is read, and not the data set"
    assert any(note.startswith(hides) for note in asked.told.notes)
    (tmp_path / "blimp").rename(tmp_path / "data")
    (tmp_path / "blimp").mkdir()
    with pytest.raises(InputError, match=f"^blimp: this folder does not hold a table; .*; {hides}"):
        Likelihood(data="blimp").stage(causal_model.exported)
