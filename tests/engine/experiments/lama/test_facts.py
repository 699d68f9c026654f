"""Facts of LAMA from each of the three layouts, and what is wrong with a bad file, in one line."""

import gzip
import json

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.lama.facts import Fact, read_facts

PARIS, OSLO = "The capital of France is [MASK] .", "The capital of Norway is [MASK] ."
OURS = {"relation": "P36", "sub_label": "France", "obj_label": "Paris", "masked_sentence": PARIS}
OURS |= {"masked_negation": "The capital of France is not [MASK] .", "misprimed_high": f"Rome? {PARIS}"}
OURS |= {"misprimed_low": None, "misprimed_random": f"Cat? {PARIS}"}
CONCEPT = {"pred": "CapableOf", "masked_sentences": ["Birds can [MASK]."], "obj_label": "fly", "uuid": "8c99"}
CONCEPT |= {"sub_label": "birds"}
LACKING = {"sub_label": "a", "obj_label": "b"}


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    return path


def upstream(prime, **others):
    row = {name: OURS[name] for name in ("sub_label", "obj_label")}
    sentences = {"masked_sentences": [PARIS], "masked_negations": [OURS["masked_negation"]]}
    return row | sentences | {"masked_misprimed": [f"{prime}? {PARIS}"]} | others


def told(facts):
    return [(fact.relation, fact.subject, fact.gold, fact.affirmative, fact.negated) for fact in facts]


def test_ours_plain_and_compressed_and_the_corpora_that_are_chosen(tmp_path):
    path = write(tmp_path / "TREx.jsonl", OURS)
    misprimed = {"high": f"Rome? {PARIS}", "random": f"Cat? {PARIS}"}
    fact = Fact("TREx", "P36", "France", "Paris", PARIS, OURS["masked_negation"], misprimed, "", f"{path}:1")
    packed = write(tmp_path / "packed" / "TREx.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_facts([path]).facts == read_facts([packed]).facts == (fact,)
    write(tmp_path / "SQuAD.jsonl", OURS | {"relation": "Squad"})
    assert [fact.corpus for fact in read_facts([tmp_path], ["SQuAD"]).facts] == ["SQuAD"]
    with pytest.raises(InputError, match=r": there are no facts of GoogleRE$"):
        read_facts([tmp_path], ["GoogleRE"])
    changes = [{"obj_label": "Lyon"}, {"masked_negation": "No [MASK] ."}, {"misprimed_low": "Lo? [MASK] ."}]
    changed = [write(tmp_path / str(i) / "TREx.jsonl", OURS | change) for i, change in enumerate(changes)]
    assert len({read_facts([file]).sha256 for file in (path, packed, *changed)}) == 4  # each query, and no path


def test_the_misprimed_layout_is_merged_by_fact(tmp_path):
    data = tmp_path / "data"
    write(data / "TREx/high_ranked/P36.jsonl", upstream("Rome"))
    write(data / "TREx/random/P36_random.jsonl", upstream("Cat"))
    birds = CONCEPT | {"masked_negations": ["Birds cannot [MASK]."], "masked_misprimed": ["Talk? Birds can [MASK]."]}
    write(data / "ConceptNet/high_ranked/ConceptNet_misprimed/ConceptNet.jsonl", birds)
    squad = {"sub_label": "Squad", "obj_label": "water", "id": "56e7_0"}
    squad |= {"masked_sentences": ["Ice is [MASK]."], "masked_negations": ["Ice is not [MASK]."]}
    write(data / "SQUAD/random/Squad.jsonl", squad | {"masked_misprimed": ["Cat? Ice is [MASK]."]})
    found = read_facts([data]).facts
    assert [fact.corpus for fact in found] == ["TREx", "ConceptNet", "SQuAD"]
    assert found[:1] == read_facts([write(tmp_path / "TREx.jsonl", OURS)]).facts
    assert told(found[1:]) == [
        ("CapableOf", "birds", "fly", "Birds can [MASK].", "Birds cannot [MASK]."),
        ("Squad", "Squad", "water", "Ice is [MASK].", "Ice is not [MASK]."),
    ]
    assert (found[1].misprimed, found[1].identifier) == ({"high": "Talk? Birds can [MASK]."}, "8c99")


def test_lamas_own_templates(tmp_path):
    """Each pair of subject and object once; a template without negation leaves the fact without one."""
    row = {"sub_label": "France", "obj_label": "Paris", "uuid": "x"}
    write(tmp_path / "TREx/P36.jsonl", row, row, {"sub_label": "Norway", "obj_label": "Oslo"})
    write(tmp_path / "TREx/P37.jsonl", {"sub_label": "Chile", "obj_label": "Spanish"})
    template = "The capital of [X] is [Y] ."
    first = {"relation": "P36", "template": template, "template_negated": template.replace("is", "is not")}
    write(tmp_path / "relations.jsonl", first, {"relation": "P37", "template": "In [X] they speak [Y] ."})
    found = read_facts([tmp_path])
    assert told(found.facts) == [
        ("P36", "France", "Paris", PARIS, OURS["masked_negation"]),
        ("P36", "Norway", "Oslo", OSLO, OSLO.replace("is", "is not")),
        ("P37", "Chile", "Spanish", "In Chile they speak [MASK] .", None),
    ]
    assert found.excluded == {"an earlier fact has the same subject and object": 1}


def test_lamas_google_re_without_what_raters_rejected(tmp_path):
    """One yes and one no is not a majority of no."""
    rated = {"Ada": ("yes", "no"), "Bob": ("yes", "no", "no"), "Cid": ("yes",)}
    rows = [{"sub_label": name, "obj_label": "Rome", "judgments": [{"judgment": one} for one in own]}
            for name, own in rated.items()]  # fmt: skip
    write(tmp_path / "Google_RE/place_of_death_test.jsonl", *rows)
    found = read_facts([tmp_path])
    assert told(found.facts) == [
        ("place_of_death", name, "Rome", f"{name} died in [MASK] .", f"{name} did not die in [MASK] .")
        for name in ("Ada", "Cid")
    ]
    assert found.excluded == {"most raters rejected the fact": 1}


def test_lamas_conceptnet_and_squad(tmp_path):
    """Queries are in the rows, negations in `negated`; more than 100 words are too many."""
    long = CONCEPT | {"uuid": "long", "masked_sentences": ["very " * 100 + "[MASK]"]}
    write(tmp_path / "ConceptNet/test.jsonl", CONCEPT | {"negated": ["Birds cannot [MASK]."]}, long)
    squad = {"sub_label": "Squad", "obj_label": "water", "id": "56e7_0", "masked_sentences": ["Ice is [MASK]."]}
    write(tmp_path / "Squad/test.jsonl", squad | {"negated": []})
    found = read_facts([tmp_path])
    assert told(found.facts) == [
        ("CapableOf", "birds", "fly", "Birds can [MASK].", "Birds cannot [MASK]."),
        ("Squad", "Squad", "water", "Ice is [MASK].", None),
    ]
    assert found.excluded == {"the query has more than 100 words": 1}


BAD = {
    r"TREx\.jsonl:1: the file is empty": {"TREx.jsonl": "\n \r\n"},
    r"TREx\.jsonl:1: not JSON": {"TREx.jsonl": "{]\n"},
    r"TREx\.jsonl:1: sub_label is missing; a text": {"TREx.jsonl": {"masked_sentence": PARIS, "relation": "P36"}},
    r":2: obj_label is ''; a text is needed": {"TREx.jsonl": [OURS, OURS | {"obj_label": ""}]},
    r":2: relation is 36; a text is needed": {"TREx.jsonl": [OURS, OURS | {"relation": 36}]},
    r":2: 'No mask\.' has no \[MASK\]; it must": {"TREx.jsonl": [OURS, OURS | {"masked_sentence": "No mask."}]},
    r":2: '\[MASK\] \[MASK\]' has 2": {"TREx.jsonl": [OURS, OURS | {"masked_negation": "[MASK] [MASK]"}]},
    r":2: 'Rome\?' has no \[MASK\]": {"TREx.jsonl": [OURS, OURS | {"misprimed_high": "Rome?"}]},
    r":2: relation is 'P\|36'; a relation must not have a \|": {"TREx.jsonl": [OURS, OURS | {"relation": "P|36"}]},
    r":2: the same fact as in .*TREx\.jsonl:1; give each file once": {"TREx.jsonl": [OURS, OURS]},
    r"facts\.jsonl: the file or a folder must have the name of a corpus: GoogleRE, TREx": {"facts.jsonl": OURS},
    r"P36\.jsonl:1: masked_negations is \[\]; a l": {"TREx/random/P36.jsonl": upstream("Cat", masked_negations=[])},
    r"P36\.jsonl: a folder .* must be named high_ranked or low_ranked or ran": {"TREx/P36.jsonl": upstream("Cat")},
    r"P36\.jsonl: LAMA's templates are missing": {"TREx/P36.jsonl": LACKING},
    r"relations\.jsonl: there is no template of P36, which .*P36\.jsonl needs": {
        "relations.jsonl": {"relation": "P1", "template": "[X] [Y]"},
        "TREx/P36.jsonl": LACKING,
    },
    r"P36\.jsonl: the file's name must be a rela": {"GoogleRE/P36.jsonl": LACKING},
    r"test\.jsonl:1: masked_sentences is missing": {"ConceptNet/test.jsonl": LACKING},
    r"P36_random\.jsonl:1: the negation of .* differs from .*P36\.jsonl:1": {
        "TREx/high_ranked/P36.jsonl": upstream("Rome"),
        "TREx/random/P36_random.jsonl": upstream("Cat", masked_negations=["Not [MASK] ."]),
    },
    r"there is no \.jsonl file in it; give LAMA's data folder, or a file": {},
}


def test_a_bad_row_or_file_is_refused_in_one_line(tmp_path):
    for number, (said, files) in enumerate(BAD.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, rows in files.items():
            write(folder / name, *(rows if isinstance(rows, list) else [rows]))
        with pytest.raises(InputError, match=said) as caught:
            read_facts([folder])
        assert "\n" not in str(caught.value)
