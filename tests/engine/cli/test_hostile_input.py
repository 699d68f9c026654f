"""Files and options that nobody should give: each is one line of sensible length and exit status 2, and none hangs."""

import gzip
import json
import os
import shutil
import signal
from importlib import import_module
from pathlib import Path

import pytest
from fake_exports import write_fake_export
from negengine.engine.basics.sealed import seal
from negengine.engine.experiments.cues.cue_words import LABELS
from small_stages import work

pytestmark = pytest.mark.long

SECONDS = 60  # far more than a command takes that refuses its input
LONGEST = 680  # characters of a line on stderr
DIGITS = "9" * 10_000
LETTERS = "x" * 5_000


@pytest.fixture(autouse=True)
def patience():
    """A command that waits for ever fails instead."""

    def give_up(*_):
        raise AssertionError(f"still at work after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def material(tmp_path_factory, small_tokenizers, small_lexicon) -> Path:
    """Models that are never opened, word lists, tables, runs: all of them right."""
    for module in ("export.training.cues", "export.training.nli"):
        import_module(f"negengine.{module}")  # so that the seconds of `patience` are not spent on imports
    folder = tmp_path_factory.mktemp("material")
    tokenizer = small_tokenizers["WordPiece cased"].backend.to_str()
    write_fake_export(folder / "model", tokenizer)
    labels = ["entailment", "not_entailment"]
    write_fake_export(folder / "classifier", tokenizer, task="text-classification", labels=labels, vocab_size=2)
    shutil.copytree(small_lexicon, folder / "lexicon")
    for name, content in {"lama": LAMA, "diagnostics": SIMPLE, "nli": NLI}.items():
        (folder / name).mkdir()
        path = folder / name / {"lama": "TREx.jsonl", "diagnostics": "NEG-136-SIMP.tsv", "nli": "RTE.txt"}[name]
        path.write_text(content)
    (folder / "patterns.toml").write_text(PATTERNS)
    (folder / "suite.toml").write_text('[[model]]\nmodel = "model"\n[[probe]]\nprobe = "select"\n')
    (folder / "sentences.csv").write_text("sentence\nAnna likes to dance.\n")
    (folder / "words.txt").write_text("dance\nsmoke\n")
    (folder / "text.txt").write_text("She never dances.\n")
    (folder / "marked.txt").write_text(MARKED)
    write_fake_export(
        folder / "detector", tokenizer, task="token-classification", labels=list(LABELS), vocab_size=len(LABELS)
    )
    (folder / "own.csv").write_text(OWN)
    work(folder / "run")
    (folder / "odd").mkdir()
    os.mkfifo(folder / "odd/pipe.txt")
    (folder / "odd/loop.txt").symlink_to("loop.txt")
    (folder / "glue").mkdir()
    for part in ("train", "dev"):
        (folder / "glue" / f"{part}.tsv").write_text(GLUE)
    return folder


PATTERNS = """\
name = "own"
[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} is {PROF} who likes to {ACT}."
target = "{PRON} is happy to {MASK}."
"""
LAMA = json.dumps(
    {"relation": "P1", "sub_label": "Anna", "obj_label": "dance", "masked_sentence": "Anna likes to [MASK]."}
)
SIMPLE = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n0\tAnna is\tAnna is not\tdancer\tsmoke\n"
OWN = "sentence,target,group\nAnna likes to [MASK].,dance,a\nJohn likes to [MASK].,smoke,b\n"
MARKED = "t\t0\t0\tnever\tnever\tRB\t*\tnever\t_\t_\n\n" * 9
GLUE = "index\tsentence1\tsentence2\tlabel\n0\tAnna dances.\tAnna does not.\tnot_entailment\n"
NLI = "index\tText\tHypothesis\tgold_label\n0\tAnna likes to dance.\tAnna does not.\tnot_entailment\n"


@pytest.fixture
def refused(command, material, monkeypatch, tmp_path, no_session):
    """Runs a command in the material, or in a copy of it that `spoil` has changed; at most a run folder is new."""

    def run(arguments, said, spoil=None):
        folder = material
        if spoil is not None:
            shutil.rmtree(tmp_path / "spoilt", ignore_errors=True)
            folder = shutil.copytree(material, tmp_path / "spoilt", ignore=shutil.ignore_patterns("odd"))
            spoil(folder)
        monkeypatch.chdir(folder)
        there = sorted(folder.rglob("[!.]*"))
        done = command(*arguments)
        shutil.rmtree(folder / "runs", ignore_errors=True)
        assert sorted(folder.rglob("[!.]*")) == there
        *before, line = done.err.splitlines()
        before = [other for other in before if not other.startswith(("RTE: 1 pairs to learn from", "probe: "))]
        assert (done.status, done.out, before) == (2, "", []), done.err[-2_000:]
        assert line.startswith("negengine: ")
        assert len(line) <= LONGEST + len(str(folder))
        assert said in line, line

    return run


def written(name, content):
    """Writes a file of the material anew."""

    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix("").unlink(missing_ok=True)  # a packed file stands for the same one unpacked
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return spoil


SELECT = ("select", "model", "--lexicon", "lexicon", "--patterns", "patterns.toml")
CHECK = ("patterns", "check", "patterns.toml", "--lexicon", "lexicon")
LAMA_COMMAND = ("lama", "model", "--data", "lama")
DIAGNOSTICS = ("diagnostics", "model", "--data", "diagnostics", "--dataset", "NEG-136-SIMP")
NLI_COMMAND = ("nli", "classifier", "--data", "nli", "--source", "RTE")
CUES = ("cues", "words.txt")
DETECTED = ("cues", "text.txt", "--detector", "detector")
TRAIN_NLI = (
    *("nli", "train", "mini", "--new-pooler", "--task", "rte", "--data", "glue", "-o", "trained", "--device", "cpu"),
    *("--max-length", "32"),
)
TRAIN_CUES = ("cues", "train", "marked.txt", "-o", "trained", "--encoder", "encoder")
PROBE = ("probe", "model", "own.csv")
LIKELIHOOD = ("likelihood", "model", "sentences.csv")
SUITE = ("suite", "suite.toml")

# ---------------------------------------------------------------- bytes that are not text

READERS = [  # (file, the command that reads it)
    ("lexicon/verbs.txt", SELECT),
    ("lexicon/names_male.txt", SELECT),
    ("lexicon/professions.txt", SELECT),
    ("lexicon/pronouns.txt", SELECT),
    ("lexicon/articles.txt", SELECT),
    ("lexicon/slot_CITY.txt", SELECT),
    ("lexicon/agreement.toml", CHECK),
    ("patterns.toml", SELECT),
    ("suite.toml", SUITE),
    ("lama/TREx.jsonl", LAMA_COMMAND),
    ("words.txt", (*LAMA_COMMAND, "--vocabulary", "words.txt")),
    ("words.txt", CUES),
    ("diagnostics/NEG-136-SIMP.tsv", DIAGNOSTICS),
    ("nli/RTE.txt", NLI_COMMAND),
    ("own.csv", PROBE),
    ("sentences.csv", LIKELIHOOD),
    ("text.txt", DETECTED),
    ("marked.txt", TRAIN_CUES),
    ("glue/train.tsv", TRAIN_NLI),
]
NOT_UTF8 = b"dance\n\x81\xff\x8d\n"
NOT_TEXT = {
    "NUL": b"dance\nsm\0ke\n",
    "UTF-16": "dance\n".encode("utf-16"),
    "an escape of a terminal": b"\x1b[31mdance\n",
    "a line of 10 MB": b"x" * 10_000_000,
    "packed": gzip.compress(b"dance\n"),
}
WAYS = [("lama/TREx.jsonl", LAMA_COMMAND), ("own.csv", PROBE), ("words.txt", CUES)]  # in which all text is read


@pytest.mark.parametrize(("name", "arguments"), READERS)
def test_bytes_that_are_not_text_and_an_empty_file(refused, name, arguments):
    refused(arguments, f"{name}:", written(name, NOT_UTF8))
    if name not in {"lexicon/articles.txt", "lexicon/agreement.toml"}:  # which may be empty
        refused(arguments, name, written(name, b""))


@pytest.mark.parametrize("content", NOT_TEXT)
@pytest.mark.parametrize(("name", "arguments"), WAYS)
def test_other_bytes_that_are_not_text(refused, name, arguments, content):
    refused(arguments, f"{name}:", written(name, NOT_TEXT[content]))


# ---------------------------------------------------------------- names that are not files

NAMED = """\
select model --lexicon
select model --patterns
patterns check
patterns check patterns.toml --model
lama model --data
lama model --data lama --vocabulary
probe model
probe model own.csv --targets
likelihood model
diagnostics model --data
nli classifier --data
cues
cues text.txt --detector
cues train -o trained --encoder encoder
score
score run --model
compare
merge -o whole
merge --status
suite
select
"""
ODD = {
    "a device": "/dev/zero",
    "a loop of links": "odd/loop.txt",
    "5,000 letters": LETTERS,
    "5,000 letters in folders": "/".join(["x" * 200] * 25),
    "a NUL": "a\0b.txt",
    "a file as a folder": "words.txt/x.txt",
}


@pytest.mark.parametrize("words", NAMED.splitlines())
def test_a_pipe_that_nobody_writes_to_is_not_read(refused, words):
    refused((*words.split(), "odd/pipe.txt"), "")


@pytest.mark.parametrize("odd", ODD)
def test_a_name_that_is_neither_a_folder_of_words_nor_one_for_results(refused, odd):
    refused(("select", "model", "--lexicon", ODD[odd]), "")
    if odd != "a loop of links":
        refused((*SELECT, "-o", ODD[odd]), "")


def test_a_word_list_that_is_a_pipe(refused):
    def spoil(folder: Path) -> None:
        (folder / "lexicon/verbs.txt").unlink()
        os.mkfifo(folder / "lexicon/verbs.txt")

    refused(SELECT, "lexicon/verbs.txt: cannot be read", spoil)


# ---------------------------------------------------------------- numbers and words

TEXTS = ["", "[MASK]" * 2_000, "word " * 5_000 + "[MASK]", LETTERS + "[MASK]", "[PAD] [MASK]"]
VALUES = {
    "": (("predict", "model"), TEXTS),
    "--seed": (SELECT, [DIGITS, str(2**63), "1.5", "nan", ""]),
    "--threads": (SELECT, [DIGITS, "1025"]),
    "--draws": (DIAGNOSTICS, [DIGITS, "1000000000"]),
    "--max-length": (NLI_COMMAND, [DIGITS, "7", "65"]),
    "--top": (("predict", "model", "a [MASK]"), [DIGITS, "0"]),
    "--target": (PROBE, [LETTERS, "", "a\0b", "rank"]),
    "--group": (PROBE, [LETTERS, "\udcff"]),
    "--acceptable": ((*LIKELIHOOD, "--pair", "sentence"), [LETTERS, ""]),
    "--ranks": (("gh22", "model"), [DIGITS, "1,,2", "", ",".join(["1"] * 10_000)]),
    "--shard": (SELECT, [f"1/{DIGITS}", "0/0", "1/2/3", "auto", f"auto:0-{DIGITS}"]),
    "--device": (SELECT, [f"cuda:{DIGITS}", LETTERS, "", ",".join(["cpu"] * 10_000), "a\0b", "cuda:-1"]),
    "--coreference": (SELECT, [LETTERS]),
    "--patterns": (("select", "model"), ["", "a\nb", "\udcff"]),
    "--labels": (NLI_COMMAND, [LETTERS, "", ",".join(["entailment"] * 1_000)]),
    "--original": (NLI_COMMAND, [LETTERS, "", "RTE=", f"{LETTERS}=x", "RTE=odd/pipe.txt"]),
}


@pytest.mark.parametrize("option", VALUES)
def test_a_value_that_an_option_cannot_have(refused, option):
    arguments, values = VALUES[option]
    for value in values:
        refused((*arguments, *filter(None, [option]), value), "")


def test_a_command_that_does_not_exist(refused):
    refused((LETTERS,), "No such command")
    refused(("select", f"--{LETTERS}"), "No such option")
    refused(("data", "get", LETTERS), "unknown data set")


# ---------------------------------------------------------------- contents that are too much, or not what they seem

TOML = {
    "nested lists": 'name = "own"\nx = ' + "[" * 100_000,
    "nested tables": "[" + ".".join(["a"] * 20_000) + "]\n",
    "a long number": f'name = "own"\nx = {DIGITS}\n',
    "a slot of 5,000 letters": PATTERNS.replace("{ACT}", f"{{{LETTERS}}}"),
    "a sentence of 500,000 characters": PATTERNS.replace("likes to", "likes to " * 60_000),
    "an escaped NUL": PATTERNS.replace("likes", r"li\u0000kes"),
    "10,000 patterns": PATTERNS + PATTERNS.partition("\n")[2].replace("selecting", "control") * 10_000,
    "10,000 headers in strings": 'name = """\n' + "[[pattern]]\n" * 10_000 + '"""\npattern = 1\n',
    "5 MB": ("#" + "x" * 98 + "\n") * 50_000,
}
OWN_TABLES = {
    "10,000 columns": ",".join(f"c{i}" for i in range(10_000)) + "\n",
    "2,000 masks": "sentence,target\n" + "[MASK]" * 2_000 + ",b\n",
    "1,001 groups": "sentence,target,group\n" + "".join(f"a [MASK],dance,{i}\n" for i in range(1_001)),
    "an escape of a terminal in a header": "sentence,target,\x1b[31m\na [MASK],dance,1\n",
    "nested lists": '{"sentence": ' + "[" * 100_000 + "\n",
    "a sentence of 50,000 words": "sentence,target\n" + "a " * 50_000 + "[MASK],b\n",
    "a target of 5,000 letters": f"sentence,target\na [MASK],{LETTERS}\n",
    "a target that is a special token": "sentence,target\na [MASK],[SEP]\n",
    "the padding token": "sentence,target\na [PAD] [MASK],dance\n",
    "the name of a result": "sentence,target,rank\na [MASK],dance,1\n",
}
LINES = {
    "a value of 10,000 digits": f'{{"relation": {DIGITS}}}',
    "a value of nested lists": '{"relation": ' + "[" * 900 + "]" * 900 + "}",
    "NaN": LAMA.replace('"P1"', "NaN"),
    "an escaped NUL": LAMA.replace("Anna likes", r"Anna \u0000likes"),
    "half a character": LAMA.replace("Anna likes", r"Anna \ud800likes"),
    "a text of 100,000 characters": LAMA.replace("likes", "likes " * 20_000),
    "a word of 5,000 letters": LAMA.replace('"P1"', f'"{LETTERS}|"'),
}
PACKED = {
    "a false checksum": gzip.compress(LAMA.encode())[:-8] + b"12345678",
    "a line of 1 GB": gzip.compress(b"x" * 10**7) * 100,
}
ITEMS = {
    "100,000 fields": SIMPLE.replace("\tsmoke", "\t" * 100_000),
    "a context of 100,000 characters": SIMPLE.replace("Anna is not", "Anna is not " * 10_000),
}
PAIRS = {
    "a number of 10,000 digits": NLI.replace("\n0\t", f"\n{DIGITS}\t"),
    "a negative number": NLI.replace("\n0\t", "\n-1\t"),
    "a digit of another script": NLI.replace("\n0\t", "\n\u0663\t"),
    "a label of 5,000 letters": NLI.replace("\tnot_entailment", f"\t{LETTERS}"),
    "a text of 100,000 characters": NLI.replace("Anna likes", "Anna likes " * 10_000),
}
SPOILT = {
    "patterns.toml": (SELECT, TOML),
    "lexicon/verbs.txt": (SELECT, {"5,000 letters": f"{LETTERS}\n"}),
    "lexicon/pronouns.txt": (SELECT, {"5,000 letters": f"{LETTERS} = she\n", "a path": "../x = she\n"}),
    "own.csv": (PROBE, OWN_TABLES),
    "lama/TREx.jsonl": (LAMA_COMMAND, LINES),
    "lama/TREx.jsonl.gz": (LAMA_COMMAND, PACKED),
    "diagnostics/NEG-136-SIMP.tsv": (DIAGNOSTICS, ITEMS),
    "nli/RTE.txt": (NLI_COMMAND, PAIRS),
}


@pytest.mark.parametrize(("name", "content"), [(name, key) for name, (_, own) in SPOILT.items() for key in own])
def test_a_file_that_is_not_what_it_should_be(refused, name, content):
    arguments, contents = SPOILT[name]
    refused(arguments, "" if name.startswith("lexicon/") else name, written(name, contents[content]))


def test_lists_that_make_more_pairs_than_memory_holds(refused):
    def spoil(folder: Path) -> None:
        (folder / "lexicon" / "names_male.txt").write_text("".join(f"N{i}\n" for i in range(4_000)))
        (folder / "lexicon" / "professions.txt").write_text("".join(f"a p{i}\n" for i in range(4_000)))

    refused(SELECT, "16,008,000 [NAME, PROF] pairs; give lists that make at most 10,000,000", spoil)


def test_a_context_that_takes_a_regular_expression_hours(refused):
    rows = "item\tcontext\texpected\texp_cloze\ttarget\n1-a\t" + "which  the " * 900 + "\ta|b\t0.5\tserved\n"
    arguments = ("diagnostics", "model", "--data", "ROLE-88.tsv")
    refused(arguments, "must end in `which", lambda folder: (folder / "ROLE-88.tsv").write_text(rows))


# ---------------------------------------------------------------- documents of this program

CUT_OFF = b"{"
NOT_DOCUMENTS = (b"[" * 100_000, b'{"format": ' + DIGITS.encode() + b"}", seal({"format": 99}))
READ_BY = {
    "run/run.json": [("score", "run"), ("compare", "run"), ("merge", "run", "-o", "whole"), (*SELECT, "-o", "run")],
    "trained/training.json": [TRAIN_NLI, (*TRAIN_CUES[:-2], "--encoder", "mini", "--device", "cpu")],
    "model/export.json": [SELECT, ("predict", "model", "a [MASK]"), ("gh22", "model")],
}


@pytest.mark.parametrize("name", READ_BY)
def test_a_document_that_is_not_one(refused, name):
    """Others, of right digests too, are tried with the readers themselves: basics/test_fuzz."""
    for content in NOT_DOCUMENTS:
        refused(READ_BY[name][0], name, written(name, content))
    for arguments in READ_BY[name]:
        refused(arguments, name, written(name, CUT_OFF))


A_TRAINING = {"format": 1, "negengine": "0.1.0", "kind": "nli train", "identity": {}}
CHANGED = [
    {"finished": True},
    {"finished": True, "result": {"steps": 1, "epochs": 0, "score": 0.5}},
    {"files": {"../../payload": "0" * 64}},
    {"kind": LETTERS},
    {"identity": {f"{LETTERS}{i}": i for i in range(1_000)}},
    {"identity": {"model": json.loads("[" * 200 + "]" * 200)}},
]


def test_a_training_that_somebody_made_with_a_right_digest(refused):
    for changed in CHANGED:
        refused(TRAIN_NLI, "trained", written("trained/training.json", seal(A_TRAINING | changed)))


def test_full_stops_after_initials_do_not_take_quadratic_time(command, tmp_path):
    """Each one ended a search of the whole line: hours for this one."""
    (tmp_path / "words.txt").write_text("A. " * 300_000 + "She never said so.\n")
    done = command("cues", "words.txt", "--json")
    assert done.status == 0
    assert json.loads(done.out)[0]["sentences"] == 1
