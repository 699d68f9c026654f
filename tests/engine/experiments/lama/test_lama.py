"""Facts of LAMA from each layout; which facts count, and what a model says of them, on hand-made logits."""

import gzip
import json
from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from asked_stages import lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.lama.facts import Fact, Facts, read_facts
from negengine.engine.experiments.lama.lama import SAME
from negengine.engine.inference.causal import open_language_model
from negengine.engine.inference.model import MaskedLM
from negengine.engine.requests.vocabulary import LIST, Ranked
from negengine.engine.requests.word import NOT_RANKED, NOT_READ, SEVERAL
from scipy import stats

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


REFUSED = [
    *({"obj_label": own} for own in (None, float("nan"), " ", "NA", "<NA>", 7, ["Paris"])),
    *({"sub_label": own} for own in (None, "NaN", 1984)),
    *({"relation": own} for own in (None, "#N/A", 36)),
    *({"masked_sentence": own} for own in (None, "", [PARIS], "The capital of France is <mask> .")),
    *({"masked_sentence": own} for own in (f"{PARIS} {PARIS}", PARIS.replace("France", "[MASK]"))),
    {"masked_negation": "The capital of France is not Paris ."},
]


@pytest.mark.parametrize("change", REFUSED, ids=range(len(REFUSED)))
def test_a_fact_without_a_value_is_refused_by_its_line(tmp_path, change):
    path = write(tmp_path / "TREx.jsonl", OURS | {"obj_label": "Lyon"}, OURS | change)
    with pytest.raises(InputError, match=r"TREx\.jsonl:2: "):
        read_facts([path])
    [field] = change
    if field.endswith("label"):  # in the layout of the authors, too: a missing answer is not the word “None”
        path = write(tmp_path / "data/TREx/random/P36_random.jsonl", upstream("Cat"), upstream("Cat") | change)
        with pytest.raises(InputError, match=f"P36_random.jsonl:2: {field} is "):
            read_facts([tmp_path / "data"])


def test_a_missing_negation_is_none_relations_have_one_spelling_and_a_key_stands_once(tmp_path):
    apart = ("ne\u0301gatif", " n\u00e9gatif", "n\u00e9gatif\u200b", "n\u00e9gatif")
    lacking = (None, "", "NA", float("nan"))
    rows = [
        OURS | {"relation": relation, "masked_negation": own, "obj_label": f"Paris {i}", "source_id": None}
        for i, (relation, own) in enumerate(zip(apart, lacking, strict=True))
    ]
    found = read_facts([write(tmp_path / "TREx.jsonl", *rows)]).facts
    assert {(fact.relation, fact.negated, fact.identifier) for fact in found} == {("n\u00e9gatif", None, "")}
    twice = json.dumps(OURS)[:-1] + ', "obj_label": "Rome"}\n'
    with pytest.raises(InputError, match=r"TREx\.jsonl:1: the key 'obj_label' stands there twice; write it once"):
        read_facts([write(tmp_path / "TREx.jsonl", twice)])


# A text and its answer; spaces, letters and cases as people write them, and words before which the mask has no space.
WRITTEN = [
    *((f"{before}The capital of France is{space}[MASK].{after}", "paris") for before, space, after in (
        ("", " ", ""), (" ", "  ", "\n"), ("\t", "\u00a0", " "), ("", "\u3000", "\u00a0"))),
    *(("The capital of France is [MASK].", own) for own in (
        " paris", "paris\u00a0", "Paris", "PARIS", "Par\u200bis", "pa\u0301ris")),
    ("The cap\u00adital of France is [MASK].", "paris"), ('"[MASK]," she said.', "yes"),
    ("Le caf\u00e9 est [MASK].", "bar"), ("Le cafe\u0301 est [MASK].", "bar"), ("The ([MASK]) is open.", "bar"),
    ("STRASSE is [MASK].", "red"), ("stra\u1e9ee is [MASK].", "red"), ("Stra\u00dfe is [MASK].", "red"),
    ("\u4ed6\u4e0d[MASK]\u3002", "red"), ("\u0130stanbul is [MASK]", "red"), ("It is [MASK] \u2764\ufe0f.", "red"),
]  # fmt: skip


@pytest.mark.everything
def test_facts_however_they_are_written_have_the_numbers_of_a_plain_loop(mini, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    rows = [
        {
            "relation": f"r{i}",
            "sub_label": "s",
            "obj_label": gold,
            "masked_sentence": text,
            "masked_negation": f"No, {text}",
        }
        for i, (text, gold) in enumerate(WRITTEN)
    ]
    path = write(tmp_path / "TREx.jsonl", *rows)
    run = ng.lama(mini.folder, data=path, output=tmp_path / "run", device="cpu", precision="fp32", progress=False)
    checkpoint = Path(__file__).parents[4] / "export" / "mini"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForMaskedLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    found = run.items.filter(pl.col("role").is_null()).sort(pl.col("cluster").str.slice(1).cast(pl.Int64))
    assert len(found) == len(WRITTEN)
    for item, (text, gold) in zip(found.to_dicts(), WRITTEN, strict=True):
        logits = []
        for own in (text, f"No, {text}"):
            read = tokenizer(own, return_tensors="pt")
            with torch.inference_mode():
                at_mask = model(**read).logits[read["input_ids"] == tokenizer.mask_token_id]
            logits.append(at_mask[0].double())
        (token,) = tokenizer(gold, add_special_tokens=False)["input_ids"]
        wanted = logits[0].log_softmax(-1)[token].item(), 1 + int((logits[0] > logits[0][token]).sum())
        assert (item["why"], item["rank"]) == (None, wanted[1]), text
        assert item["logprob"] == pytest.approx(wanted[0], abs=1e-4)
        assert item["spearman"] == pytest.approx(stats.spearmanr(*logits).statistic, abs=1e-4)
    verified = ng.verify(run, torch=str(checkpoint), sample=len(WRITTEN), seed=0)
    assert not verified.damage
    assert [check.n for check in verified.checks if check.what.endswith("again by PyTorch")] == [len(WRITTEN)]


def test_facts_are_apart_also_where_their_parts_would_join_to_one_text(tmp_path):
    parts = [("a", "b | c"), ("a | b", "c"), ("a |", "| b | c"), ("a || b", "c")]
    rows = [OURS | {"relation": relation, "sub_label": subject} for relation, subject in parts]
    assert len({fact.item for fact in read_facts([write(tmp_path / "TREx.jsonl", *rows)]).facts}) == len(parts)


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
    r"TREx\.jsonl: the file is empty": {"TREx.jsonl": "\n \r\n"},
    r"TREx\.jsonl: no column 'sub_label'; it has 'masked_sentence'": {
        "TREx.jsonl": {"masked_sentence": PARIS, "relation": "P36"}
    },
    r":2: 'No mask\.' has no \[MASK\]; it must": {"TREx.jsonl": [OURS, OURS | {"masked_sentence": "No mask."}]},
    r":2: the same fact as in .*TREx\.jsonl:1; give each file once": {"TREx.jsonl": [OURS, OURS]},
    r"facts\.jsonl: the file or a folder must have the name of a corpus: GoogleRE, TREx": {"facts.jsonl": OURS},
    r"P36\.jsonl: a folder .* must be named high_ranked or low_ranked or ran": {"TREx/P36.jsonl": upstream("Cat")},
    r"relations\.jsonl: there is no template of P36, which .*P36\.jsonl needs": {
        "relations.jsonl": {"relation": "P1", "template": "[X] [Y]"},
        "TREx/P36.jsonl": LACKING,
    },
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
        with pytest.raises(InputError, match=said):
            read_facts([folder])


def facts(*rows):
    """From relation, subject, answer, and a query with what its negation has more in brackets."""
    made = []
    for i, (relation, subject, gold, text) in enumerate(rows, 1):
        texts = (text.replace("(not )", word) for word in ("", "not "))
        made.append(Fact("TREx", relation, subject, gold, *texts, {}, "", f"f:{i}"))
    return Facts(tuple(made), {})


def capitals(*answers):
    return facts(*(("P36", str(i), gold, f"The capital of {i} is (not )[MASK] .") for i, gold in enumerate(answers)))


def test_p159_is_excluded_unless_asked_for_and_a_query_that_is_too_long_is_refused(mini):
    given = facts(("P159", "Lego", "london", "Lego is (not )in [MASK] ."), ("P36", "Oslo", "paris", "It is [MASK] ."))
    stage, whole = lama_stage(mini, given), lama_stage(mini, given, with_p159=True)
    assert stage.requests.frame["why"].to_list() == [SAME, SAME, None, None]
    assert whole.requests.frame["why"].null_count() == 4
    assert whole.identity != stage.identity
    long = facts(("P1", "ice", "water", "Ice is [MASK] ."), ("P1", "fire", "water", "very " * 9_999 + "[MASK]."))
    with pytest.raises(InputError, match=r"^f:2: .*tokens"):
        lama_stage(mini, long).check(print)


def test_answers_that_are_several_tokens_or_not_ranked_do_not_count(mini):
    stage = lama_stage(mini, capitals("Ouagadougou", "paris", "rome"), Ranked(LIST, ("paris", "london"), "two.txt"))
    part = stage.decide(MaskedLM(mini), 0, None, lambda *_: None)
    assert part.rows["why"].to_list() == [SEVERAL, SEVERAL, None, None, NOT_RANKED, NOT_RANKED]  # and its negation
    assert (
        part.rows.filter(pl.col("why").is_not_null()).select("rank", "top1", "spearman").null_count().row(0) == (4,) * 3
    )


def test_of_a_causal_model_facts_whose_queries_end_in_the_answer_count(causal):
    exported = causal("gpt2")
    texts = {"smoke": "Jessica is (not )happy to [MASK] .", "dance": "John likes to (not )[MASK]."}
    texts |= {"Jessica": "[MASK] is (not )a dancer.", "sing": "Maria likes to (not )[MASK] and dance."}
    rows = [("P36", "Squad", *row) for row in texts.items()]
    stage = lama_stage(exported, facts(*rows))
    stage.check(lambda _: None)
    part = stage.decide(open_language_model(exported), 0, None, lambda *_: None)
    assert part.rows.filter(pl.col("why").is_null())["word"].drop_nulls().to_list() == ["smoke", "dance"]
    assert part.rows["why"].value_counts().filter(why=NOT_READ)["count"].item() == 4
