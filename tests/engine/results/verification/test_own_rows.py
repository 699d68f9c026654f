"""Faults of the program's reading of tables are found by `verify --torch`, which reads the user's own file again."""

import json
import unicodedata

import negengine as ng
import pytest
from negengine.engine.experiments import own_table
from negengine.engine.experiments.probe import probe_columns
from negengine.engine.inference.again import Draw
from negengine.engine.results.verification.checks import Outcome
from negengine.engine.results.verification.own_rows import can_repeat, check_own_rows
from negengine.engine.results.verification.results import StoredStage
from negengine.engine.runs.results import begun_stages
from negengine.engine.text import table_cells, table_sources, table_text

NFD = unicodedata.normalize("NFD", "nié")
HEADER = "sentence,target,group,item\n"
PROBE = {
    "plain.csv": HEADER + 'A robin is a [MASK].,bird,a,1\n"No, a trout is a  [MASK].",fish,b,1\n',
    "spaces.csv": HEADER + '"A robin is a [MASK]. "," bird ",a,1\n "A trout is a [MASK].\u3000",fish,b ,1\n',
    "r.tsv": '"sentence"\t"target"\n"1"\t"A robin is a [MASK]."\t"bird"\n"2"\t"It is [MASK]."\t"red"\n',
    "missing.csv": HEADER + "A robin is a [MASK].,bird,a,NA\nA trout is a [MASK].,fish,b,\nIt is [MASK].,red,b,NA\n",
    "spelled.csv": HEADER + f"A robin is a [MASK].,bird,{NFD} ,1\nA trout is a [MASK].,fish,nié,1\n",
    "pipes.csv": HEADER + "A robin is a [MASK].,bird,a|b,1\nA trout is a [MASK].,fish,a/b,1\n",
    "error.csv": HEADER + "A robin is a [MASK].,bird,a,1\nA trout is a [MASK].,fish,#REF!,1\n",
    "lines.csv": 'sentence,"target\n(a word)",group\r\n"A robin\r\nis a [MASK].",bird,"a\r\nb"\r\n',
    "case.csv": "Target,target,sentence\nfish,bird,A robin is a [MASK].\n",
    "repeated.csv": "sentence,target\nA bird is a [MASK].,bird\nA dog is a [MASK].,bird\n",
    "ids.jsonl": [{"item": 1700000000000000001}, {"item": 1700000000000000002}, {"item": None}],
    "late.jsonl": [{}, {"group": "b"}],
    "fractions.jsonl": [{"item": 51}, {"item": 51.5}],
    "ours.csv": "sentence,target,item,target_column,expected,text,pair\n"
    "A robin is a [MASK].,bird,a,b,c,d,e\nIt is [MASK].,red,f,g,h,i,j\n",
}
PAIRS = {
    "ends.csv": 'good,bad\n"He smokes. ","\u3000He smoke."\n',
    "joined.csv": "good,bad\nHe smokes.,He smoke.\ngood,bad\nShe sings.,She sing.\n",
    "unpaired.csv": "sentence,pair,ok\nHe smokes.,1,yes\nHe smoke.,1,no\nShe sings.,NA,yes\nShe sing.,NA,no\n",
}
PAIRED = {"unpaired.csv": {"pair": "pair", "acceptable": "ok"}}
PAIRED["lines.csv"] = {"target": "target\n(a word)"}
PAIRED["ours.csv"] = {"group": ["item", "target_column", "expected", "text"], "item": "pair"}
_column_of = table_sources.column_of


def floats(name, values):
    return _column_of(name, [int(float(value)) if isinstance(value, int) else value for value in values])


def first_alike(table, _option, _given, obvious):
    return next((name for name in table.columns if name.lower() in obvious), None)


# File → what is at fault: the module, what it has, and what stands there instead.
FAULTS = {
    "case.csv": (own_table, "find_column", first_alike),
    "repeated.csv": (probe_columns, "repeats", lambda *_: False),
    "ids.jsonl": (table_sources, "column_of", floats),
    "joined.csv": (table_text, "is_header", lambda *_: False),
    "missing.csv": (table_cells, "MISSING", ("",)),
}


@pytest.fixture
def checked(model, tmp_path):
    """Runs a file and reads it again."""

    def check(name, **options):
        content = PROBE.get(name) or PAIRS[name]
        if not isinstance(content, str):
            plain = {"sentence": "A robin is a [MASK].", "target": "bird"}
            content = "\n".join(json.dumps(plain | row) for row in content)
        (tmp_path / name).write_text(content, "utf-8")
        run = (ng.probe if name in PROBE else ng.likelihood)(
            model, tmp_path / name, output=tmp_path / "run", progress=False, **PAIRED.get(name, {}), **options
        )
        [stored] = [StoredStage(run.folder, *own) for own in begun_stages(run.folder).items()]
        return check_own_rows(stored, run.items, Draw(model.exported, 50, 0))

    return check


REFUSED = ("error.csv", "joined.csv", "unpaired.csv")  # without the fault


@pytest.mark.parametrize("name", PROBE | PAIRS)
def test_the_program_as_it_is_reads_as_others_do_also_where_it_skips_rows(checked, name):
    found = checked(name, skip_bad=name in REFUSED)
    assert (found.outcome, found.detail) == (Outcome.OK, "")
    assert found.n


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_reading_is_found(checked, monkeypatch, name):
    monkeypatch.setattr(*FAULTS[name])
    assert checked(name).is_damage


def test_a_sign_that_does_not_stand_there_is_not_repeated(checked, monkeypatch):
    monkeypatch.setattr(probe_columns, "repeats", lambda *_: True)
    assert "'bird' has repeats_word True" in checked("plain.csv").detail


@pytest.mark.parametrize(
    ("word", "text", "truth"),
    [
        ("苹果", "我不喜欢吃苹果，我喜欢[MASK]。", True),
        ("हो", "वह ही [MASK]", False),
        ("ışık", "IŞIK değil, [MASK]", True),
    ],
)
def test_a_repetition_is_judged_as_a_reader_does(word, text, truth):
    for told in (True, False):
        assert can_repeat(word, text, told=told) is (told is truth)


def test_verify_with_torch_reads_the_file_again_if_it_is_still_the_same(model, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(PROBE["plain.csv"])
    run = ng.probe(model, path, output=tmp_path / "run", progress=False)

    def last():
        return ng.verify(run, torch="mini", sample=2).checks[-1]

    assert (last().outcome, last().n) == (Outcome.OK, 2)
    path.write_text(PROBE["plain.csv"].replace("bird", "dog"))
    assert (last().outcome, last().detail) == (Outcome.NOT_CHECKED, f"{path} has changed since")
