"""`ng.choice`: scores against plain loops with transformers, the forms of tables, and what cannot be judged."""

import json
import math

import negengine as ng
import polars as pl
import pytest
import torch
from few import few
from negengine.engine.basics.errors import InputError
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

QUESTION = {"context": "The doctor likes to", "choices": ["smoke.", "dance with Anna.", "sing."], "answer": "sing."}
# Items in one cell each: a context, a list of other length, no context, a blank.
ITEMS = [
    QUESTION,
    {"context": "Anna is", "choices": ["a dancer.", "an architect."], "answer": "a dancer."},
    {"context": "", "choices": ["Anna is happy.", "Anna are happy."], "answer": "Anna is happy."},
    {"context": "Maria is _ who likes to dance.", "choices": ["a doctor", "an architect"], "answer": "an architect"},
]
TIE = {"context": "", "choices": ["She smokes.", "She  smokes."], "answer": "She smokes."}


def lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def load(exported):
    return ng.load(exported.folder, device="cpu", precision="fp32")


def asked(item):
    """(context or None, text) of each candidate, by hand."""
    context, texts = item["context"], item["choices"]
    if "_" in context:
        return [(None, context.replace("_", text)) for text in texts]
    return [(context or None, text) for text in texts]


class Loop:
    """One text a call with transformers, in fp32."""

    def __init__(self, folder, kind, *, bos=False, within=False):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.network, self.within = kind.from_pretrained(folder).eval(), within
        self.before = [self.tokenizer.bos_token_id] if bos else []

    @torch.inference_mode()
    def logits(self, ids):
        return self.network(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)

    def score(self, context, text, *, alone=False):
        """The sum over the tokens of a text, and their number."""
        whole, given = (text, 0) if context is None else (f"{context} {text}", len(context))
        told = self.tokenizer(whole, return_offsets_mapping=True, return_special_tokens_mask=True)
        ids, words = self.before + told["input_ids"], [None] * len(self.before) + told.word_ids()
        special = [1] * len(self.before) + told["special_tokens_mask"]
        ends = [0] * len(self.before) + [end for _, end in told["offset_mapping"]]
        places = [i for i in range(len(ids)) if not special[i] and ends[i] > given]
        if alone:
            kept = [i for i in range(len(ids)) if special[i] or i in places]
            ids, words, places = [ids[i] for i in kept], [words[i] for i in kept], [kept.index(i) for i in places]
        if isinstance(self.network.config.architectures, list) and "Masked" in self.network.config.architectures[0]:
            found = [self.masked(ids, words, place) for place in places]
        else:
            logprobs = self.logits(ids)
            found = [logprobs[place - 1, ids[place]].item() for place in places if place]
        return sum(found), len(found)

    def masked(self, ids, words, place):
        later = [i for i in range(place + 1, len(ids)) if self.within and words[i] == words[place]]
        masks = [self.tokenizer.mask_token_id if i == place or i in later else token for i, token in enumerate(ids)]
        return self.logits(masks)[place, ids[place]].item()


def winners(item, loop):
    """By each score, whether the right candidate is ahead of all others."""
    scores = {"accuracy": [], "accuracy_per_token": [], "accuracy_per_byte": [], "accuracy_pmi": []}
    for context, text in asked(item):
        total, tokens = loop.score(context, text)
        scores["accuracy"].append(total)
        scores["accuracy_per_token"].append(total / tokens)
        scores["accuracy_per_byte"].append(total / len(text.encode()))
        if context is not None:
            scores["accuracy_pmi"].append(total - loop.score(context, text, alone=True)[0])
    right = item["choices"].index(item["answer"])
    return {
        name: own[right] > max(own[:right] + own[right + 1 :]) if own else None for name, own in scores.items()
    }, scores["accuracy"]


@pytest.fixture(params=["original", "within-word-l2r", "causal"])
def both(request, mini, causal, causal_checkpoint):
    """A model, the options of its run, and the loop."""
    if request.param == "causal":
        loop = Loop(causal_checkpoint("gpt2"), AutoModelForCausalLM, bos=True)
        return load(causal("gpt2")), {"bos": True}, loop
    checkpoint = request.config.rootpath / "export" / "mini"
    loop = Loop(checkpoint, AutoModelForMaskedLM, within=request.param != "original")
    return load(mini), {"method": request.param}, loop


def test_scores_and_choices_are_those_of_a_plain_loop(both, tmp_path):
    model, options, loop = both
    run = ng.choice(model, lines(tmp_path / "own.jsonl", ITEMS), output=tmp_path / "run", progress=False, **options)
    rows = run.items.filter(pl.col("role").is_null())
    for number, item in enumerate(ITEMS, 1):
        own, (verdicts, sums) = rows.filter(item=str(number)), winners(item, loop)
        assert own["sum"].to_list() == pytest.approx(sums, abs=1e-3)
        found = own.filter("right").select(*verdicts).row(0)
        assert found == tuple(verdicts.values())
    summary = dict(run.summary.filter(split="all").select("metric", "value").iter_rows())
    assert summary["chance"] == pytest.approx((1 / 3 + 3 / 2) / 4)
    assert summary["accuracy"] == rows.filter("right")["accuracy"].mean()
    assert not ng.verify(run.folder, sample=100).damage


SETS = {"xcopa": ["sentence1", "sentence2"], "bmlama": ["sentence"], "arc": ["sentence"]}


@pytest.mark.parametrize("name", few(SETS, "arc"))
def test_published_sets_are_read_as_they_are(name, mini, shared, request, tmp_path):
    """The first items of each, whose candidates are taken from the file in another way."""
    every = (shared / "data" / "datasets" / "choice" / f"{name}_en.valid.jsonl").read_text("utf-8").splitlines()
    rows, items = [json.loads(line) for line in every], []
    for row in rows:
        if name == "xcopa":
            items.append(("", [row["sentence1"], row["sentence2"]], row["label"]))
        else:
            own = row["sentence"].split("\n")
            place = next(i for i, line in enumerate(own) if line.startswith("A: "))
            letters = [line[3:] for line in own[place:]]
            items.append(("\n".join(own[:place]), letters, ord(row["label"]) - 65))
    few = 4 if name != "bmlama" else 2
    file = lines(tmp_path / f"{name}.jsonl", rows[:few])
    options = {"candidates": SETS[name], "answer": "label", "windows": True, "progress": False}
    run = ng.choice(load(mini), file, output=tmp_path / "run", **options)
    asked_for, loop = run.items.filter(pl.col("role").is_null()), None
    for number, (context, texts, right) in enumerate(items[:few], 1):
        own = asked_for.filter(item=str(number))
        assert own["right"].arg_true().to_list() == [right]
        blank = "_" in context
        whole = [context.replace("___", text).replace("_", text) if blank else text for text in texts]
        assert own["text"].to_list() == whole
        assert own["context"].to_list() == [None if blank or not context else context] * len(texts)
        loop = loop or Loop(request.config.rootpath / "export" / "mini", AutoModelForMaskedLM)
        expected = [loop.score(None if blank or not context else context, text)[0] for text in whole]
        assert own["sum"].to_list() == pytest.approx(expected, rel=1e-4)


def test_forms_of_tables_and_names_of_the_right_one_give_the_same(mini, tmp_path):
    texts, model = QUESTION["choices"], load(mini)
    context, lettered = QUESTION["context"], "".join(f"\n{'ABC'[i]}: {text}" for i, text in enumerate(texts))
    columns = {f"c{i}": [text] for i, text in enumerate(texts)}
    labelled = {"text": texts, "label": ["1", "2", "9"]}
    forms = {
        "number": ([{**QUESTION, "answer": 2}, {**QUESTION, "answer": 0}], {}),
        "number beside missing ones": ([{**QUESTION, "answer": 2.0}, {**QUESTION, "answer": 0.0}], {}),
        "from 1": ([{**QUESTION, "answer": 3}], {}),
        "letter": ([{**QUESTION, "answer": "C"}], {}),
        "label": ([{**QUESTION, "choices": labelled, "answer": "9"}], {}),
        "as pandas writes lists": ([{**QUESTION, "choices": repr(texts)}], {}),
        "as pandas writes objects": ([{**QUESTION, "choices": repr(labelled), "answer": "9"}], {}),
        "frame": (pl.DataFrame([QUESTION]), {}),  # as data sets of the hub are read: a column of lists
        "labelled frame": (pl.DataFrame([{**QUESTION, "choices": labelled, "answer": "9"}]), {}),
        "lines": ([{"question": context + lettered, "answer": "C"}], {"candidates": "question", "context": ""}),
        "columns": ({"context": [context], **columns, "answer": ["sing."]}, {"candidates": list(columns)}),
        "rows": (
            {"context": [context] * 3, "candidate": texts, "q": [7] * 3, "right": ["no", "no", "yes"]},
            {"item": "q"},
        ),
        "rows by text": (
            {"context": [context] * 3, "candidate": texts, "q": ["a"] * 3, "answer": ["sing."] * 3},
            {"item": "q"},
        ),
    }
    found = []
    for name, (data, options) in forms.items():
        table = lines(tmp_path / f"{name}.jsonl", data) if isinstance(data, list) else data
        run = ng.choice(model, table, output=tmp_path / name, progress=False, **options)
        first = run.items.filter(pl.col("item") == run.items["item"][0])
        found.append(first.select("context", "text", "right", "sum", "pmi", "accuracy", "accuracy_pmi").rows())
    assert found == [found[0]] * len(forms)


def test_two_sentences_are_the_pair_of_likelihood(mini, tmp_path):
    pair = {"good": ["Anna is happy.", "He smokes."], "bad": ["Anna are happy.", "He smoke."], "ok": [0, 0]}
    options = {"progress": False}
    one = ng.likelihood(load(mini), pair, output=tmp_path / "pairs", **options)
    two = ng.choice(load(mini), pair, candidates=["good", "bad"], answer="ok", output=tmp_path / "choice", **options)
    for name in ("accuracy", "accuracy_per_token", "ties"):
        own = [run.summary.filter(metric=name).select("value", "low", "high", "n").row(0) for run in (one, two)]
        assert own[0] == own[1]


def test_a_tie_is_never_right_and_is_counted(mini, tmp_path):
    run = ng.choice(load(mini), lines(tmp_path / "tie.jsonl", [TIE, ITEMS[1]]), output=tmp_path / "run", progress=False)
    own = run.items.filter("right", item="1")
    assert own.select("accuracy", "ties").row(0) == (False, True)
    assert run.summary.filter(metric="ties")["value"].to_list() == [0.5]


WRONG = {
    "no candidate is right": {"answer": "walk."},
    "only one candidate": {"choices": ["sing."]},
    "two candidates are alike": {"choices": ["sing.", "smoke.", " smoke. "]},
    "several candidates are right": {"choices": ["sing.", " sing. ", "smoke."]},
    "the context has several blanks; one is needed": {"context": "_ likes to _"},
    "choices holds no candidates; a list is needed, or lines such as A: …": {"choices": "sing."},
    "choices holds no candidates; a list is needed, or lines such as A: … ": {"choices": "['sing.' 'smoke.']"},  # NumPy
}


@pytest.mark.parametrize("why", WRONG)
def test_what_cannot_be_judged_is_refused_with_its_line_or_has_its_reason(why, mini, tmp_path):
    rows = [QUESTION, {**QUESTION, **WRONG[why]}, {**QUESTION, "answer": "smoke."}]
    why = why.strip()
    table, model = lines(tmp_path / "wrong.jsonl", rows), load(mini)
    with pytest.raises(InputError, match=r"wrong\.jsonl:2: ") as caught:
        ng.choice(model, table, output=tmp_path / "run", progress=False)
    assert str(caught.value).endswith(why)
    assert not (tmp_path / "run").exists()
    run = ng.choice(model, table, output=tmp_path / "run", skip_bad=True, progress=False)
    bad = run.items.filter(row=2)
    assert set(bad["why"]) == {why}
    assert bad["sum"].null_count() == len(bad)
    assert run.summary.filter(metric="accuracy")["n"].to_list() == [2]
    assert any(why in said for said in run.remarks())


def test_a_wrong_call_is_one_line(mini, tmp_path):
    numbers = {"choices": '["a", "b", "c"]', "answer": 1}
    calls = [
        ([numbers], {}, "does not show whether the first candidate has the number 0 or 1: give counts_from"),
        ([numbers, {**numbers, "answer": "B"}], {}, r"a\.jsonl:1: no candidate is right"),
        ([{"choices": "[]"}], {}, "no column 'answer'"),
        ([{**numbers, "answer": "first"}], {}, "'first' is not the text, the label, the letter or the number of a"),
        ([{"choices": "['a' 'b']", "answer": 0}], {}, r"a\.jsonl:1: choices holds no candidates; a list is needed"),
        ([numbers], {"right": "answer"}, "right says it row by row: give item"),
        ([numbers], {"counts_from": 2}, "counts_from=2: give 0 or 1"),
    ]
    for rows, options, message in calls:
        with pytest.raises(InputError, match=message):
            ng.choice(load(mini), lines(tmp_path / "a.jsonl", rows), output=tmp_path / "run", **options)
    run = ng.choice(load(mini), lines(tmp_path / "a.jsonl", [numbers]), counts_from=1, output=tmp_path / "run")
    assert run.items["right"].to_list() == [True, False, False]


def test_sums_that_lack_a_first_token_are_not_compared(causal, tmp_path):
    """A causal model without BOS: candidates that differ in their first word have no verdict, and no pmi."""
    rows = [
        {"context": "", "choices": ["Anna is happy.", "John is happy."], "answer": "Anna is happy."},
        {"context": "", "choices": ["Anna is happy.", "Anna are happy."], "answer": "Anna is happy."},
        QUESTION,
    ]
    model, table = load(causal("gpt2")), lines(tmp_path / "a.jsonl", rows)
    run = ng.choice(model, table, output=tmp_path / "run", progress=False)
    own = run.items.filter("right").sort("row")
    assert own["accuracy"].is_null().to_list() == [True, False, False]
    assert own["accuracy_pmi"].is_null().all()
    assert run.summary.filter(metric="accuracy")["n"].to_list() == [2]
    assert (
        "in 1 item the first token differs, which has no score: nothing stands before it; give --bos" in run.remarks()
    )
    assert any(said.startswith("pmi is not computed") for said in run.remarks())
    with_bos = ng.choice(model, table, bos=True, output=tmp_path / "bos", progress=False)
    assert with_bos.summary.filter(metric="accuracy")["n"].to_list() == [3]
    assert with_bos.summary.filter(metric="accuracy_pmi")["n"].to_list() == [1]
    assert all(math.isfinite(value) for value in with_bos.items.filter(pl.col("role").is_null())["sum"])
