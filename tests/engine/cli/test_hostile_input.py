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
from sealed_documents import reseal
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
WORDS = (*LAMA_COMMAND, "--vocabulary", "words.txt")
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

READERS = {
    "lexicon/verbs.txt": SELECT,
    "lexicon/names_male.txt": SELECT,
    "lexicon/professions.txt": SELECT,
    "lexicon/pronouns.txt": SELECT,
    "lexicon/articles.txt": SELECT,
    "lexicon/slot_CITY.txt": SELECT,
    "lexicon/agreement.toml": CHECK,
    "patterns.toml": SELECT,
    "suite.toml": SUITE,
    "lama/TREx.jsonl": LAMA_COMMAND,
    "words.txt": WORDS,
    "diagnostics/NEG-136-SIMP.tsv": DIAGNOSTICS,
    "nli/RTE.txt": NLI_COMMAND,
    "own.csv": PROBE,
    "sentences.csv": LIKELIHOOD,
    "text.txt": DETECTED,
    "marked.txt": TRAIN_CUES,
    "glue/train.tsv": TRAIN_NLI,
}
NOT_TEXT = {
    "NUL": b"dance\nsm\0ke\n",
    "not UTF-8": b"dance\n\x81\xff\x8d\n",
    "UTF-16": "dance\n".encode("utf-16"),
    "an escape of a terminal": b"\x1b[31mdance\n",
    "a line of 10 MB": b"x" * 10_000_000,
    "packed": gzip.compress(b"dance\n"),
}


# Two ways lead to all text: line by line, and tables. They get all these bytes, every other reader gets one kind.
EACH = [(name, "not UTF-8") for name in READERS]
ALL = [(name, content) for name in ("lama/TREx.jsonl", "own.csv") for content in NOT_TEXT if content != "not UTF-8"]


@pytest.mark.parametrize(("name", "content"), EACH + ALL)
def test_bytes_that_are_not_text(refused, name, content):
    refused(READERS[name], f"{name}:", written(name, NOT_TEXT[content]))


@pytest.mark.parametrize("content", NOT_TEXT)
def test_a_text_of_cues_that_is_not_text(refused, content):
    refused(CUES, "words.txt:", written("words.txt", NOT_TEXT[content]))


@pytest.mark.parametrize("name", [name for name in READERS if not name.endswith(("articles.txt", "agreement.toml"))])
def test_an_empty_file(refused, name):
    refused(READERS[name], name, written(name, b""))


# ---------------------------------------------------------------- names that are not files

NAMED = {
    "--lexicon": ("select", "model", "--lexicon"),
    "--patterns": ("select", "model", "--patterns"),
    "patterns check": ("patterns", "check"),
    "patterns check --lexicon": ("patterns", "check", "patterns.toml", "--lexicon"),
    "patterns check --model": ("patterns", "check", "patterns.toml", "--model"),
    "lama --data": ("lama", "model", "--data"),
    "--vocabulary": (*LAMA_COMMAND, "--vocabulary"),
    "probe": ("probe", "model"),
    "likelihood": ("likelihood", "model"),
    "--targets": (*PROBE, "--targets"),
    "diagnostics --data": ("diagnostics", "model", "--data"),
    "nli --data": ("nli", "classifier", "--data"),
    "--original": (*NLI_COMMAND, "--original"),
    "cues": ("cues",),
    "cues --detector": ("cues", "text.txt", "--detector"),
    "cues of a detector": ("cues", "--detector", "detector"),
    "cues train": ("cues", "train", "-o", "trained", "--encoder", "encoder"),
    "cues train --test": (*TRAIN_CUES, "--test"),
    "score": ("score",),
    "score --model": ("score", "run", "--model"),
    "compare": ("compare",),
    "merge": ("merge", "-o", "whole"),
    "merge --status": ("merge", "--status"),
    "suite": ("suite",),
    "MODEL": ("select",),
    "predict": ("predict",),
}
ODD = {
    "a pipe": "odd/pipe.txt",
    "a device": "/dev/zero",
    "a loop of links": "odd/loop.txt",
    "5,000 letters": LETTERS,
    "5,000 letters in folders": "/".join(["x" * 200] * 25),
    "a NUL": "a\0b.txt",
    "a file as a folder": "words.txt/x.txt",
}


@pytest.mark.parametrize(
    ("option", "odd"),
    [*((option, "a pipe") for option in NAMED), *(("--lexicon", odd) for odd in ODD if odd != "a pipe")],
)
def test_a_name_that_is_not_a_file_of_text(refused, option, odd):
    name = f"RTE={ODD[odd]}" if option == "--original" else ODD[odd]
    refused((*NAMED[option], name, *(("a [MASK]",) if option == "predict" else ())), "")


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd != "a loop of links"])
def test_an_output_that_is_not_a_folder(refused, odd):
    refused((*SELECT, "-o", ODD[odd]), "")


MADE_AS = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to("verbs.txt"),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", MADE_AS)
def test_a_word_list_that_is_not_a_file(refused, kind):
    def spoil(folder: Path) -> None:
        path = folder / "lexicon/verbs.txt"
        path.unlink()
        MADE_AS[kind](path)

    refused(SELECT, "lexicon/verbs.txt: cannot be read", spoil)


# ---------------------------------------------------------------- numbers and words

TEXTS = ["", "[MASK]" * 2_000, "no mask", "word " * 5_000 + "[MASK]", LETTERS + "[MASK]", "[PAD] [MASK]"]
NUMBERS = {
    "": (("predict", "model"), TEXTS),
    "--seed": (SELECT, [DIGITS, "9" * 400, str(2**63), "-1", "1.5", "nan", "", "one"]),
    "--threads": (SELECT, [DIGITS, "9" * 400, "1025", "0", "-1", ""]),
    "--draws": (DIAGNOSTICS, [DIGITS, "9" * 400, "1000000000", "0", "nan", ""]),
    "--max-length": (NLI_COMMAND, [DIGITS, "9" * 400, "7", "65", "nan", ""]),
    "--top": (("predict", "model", "a [MASK]"), [DIGITS, "9" * 400, "0", "nan", ""]),
    "--target": (PROBE, [LETTERS, "", "a\0b", "rank"]),
    "--group": (PROBE, [LETTERS, "", "\udcff"]),
    "--acceptable": ((*LIKELIHOOD, "--pair", "sentence"), [LETTERS, ""]),
    "--method": (PROBE, [LETTERS, ""]),
    "--ranks": (("gh22", "model"), [DIGITS, "9" * 400, "0", "1,,2", "nan", "", ",".join(["1"] * 10_000)]),
    "--shard": (SELECT, [DIGITS, f"1/{DIGITS}", "2/1", "0/0", "nan", "1/2/3", "auto", "auto:3-1", f"auto:0-{DIGITS}"]),
    "--device": (SELECT, [f"cuda:{DIGITS}", LETTERS, "", ",".join(["cpu"] * 10_000), "a\0b", "cuda:-1"]),
    "--coreference": (SELECT, [LETTERS, "", "a\0b"]),
    "--patterns": (("select", "model"), ["", "a\nb", "\udcff"]),
    "--labels": (NLI_COMMAND, [LETTERS, "", ",".join(["entailment"] * 1_000)]),
    "--original": (NLI_COMMAND, [LETTERS, "", "RTE=", f"{LETTERS}=x"]),
}


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, (_, values) in NUMBERS.items() for value in values],
    ids=lambda text: ascii(text[:20]),
)
def test_a_value_that_an_option_cannot_have(refused, option, value):
    refused((*NUMBERS[option][0], *filter(None, [option]), value), "")


def test_a_command_that_does_not_exist(refused):
    refused((LETTERS,), "No such command")
    refused(("select", f"--{LETTERS}"), "No such option")
    refused(("data", "get", LETTERS), "unknown data set")


# ---------------------------------------------------------------- patterns

TOML = {
    "nested lists": 'name = "own"\nx = ' + "[" * 100_000,
    "nested tables": "[" + ".".join(["a"] * 20_000) + "]\n",
    "a long number": f'name = "own"\nx = {DIGITS}\n',
    "a name that is a number": PATTERNS.replace('"own"', "5"),
    "a name that is nan": PATTERNS.replace('"own"', "nan"),
    "a pattern that is a number": 'name = "own"\npattern = 5\n',
    "a role that is a list": PATTERNS.replace('"selecting"', '["selecting"]'),
    "a role of 5,000 letters": PATTERNS.replace('"selecting"', f'"{LETTERS}"'),
    "a slot of 5,000 letters": PATTERNS.replace("{ACT}", f"{{{LETTERS}}}"),
    "a sentence of 500,000 characters": PATTERNS.replace("likes to", "likes to " * 60_000),
    "a key of 5,000 letters": PATTERNS + f'{LETTERS} = "x"\n',
    "an escaped NUL": PATTERNS.replace("likes", r"li\u0000kes"),
    "100,000 braces": PATTERNS.replace("likes", "{" * 1_900),
    "10,000 patterns": PATTERNS + PATTERNS.partition("\n")[2].replace("selecting", "control") * 10_000,
    "10,000 headers in strings": 'name = """\n' + "[[pattern]]\n" * 10_000 + '"""\npattern = 1\n',
    "5 MB": ("#" + "x" * 98 + "\n") * 50_000,
    "two masks": PATTERNS.replace("{ACT}", "{MASK}"),
}

# ---------------------------------------------------------------- word lists

LISTS = {
    "verbs.txt": ["x" * 5_000, "a  b", "a # b", "dance\ndance", "#", "\n" * 1_000],
    "pronouns.txt": ["she", "= she", "female =", "female = she\nfemale = her", "../x = she", f"{LETTERS} = she"],
    "professions.txt": ["dancer", "a" * 5_000],
    "slot_../x.txt": [],
    "slot_city.txt": ["Paris"],
    "slot_CITY.txt": ["female = Paris", "#"],
}


def test_lists_that_make_more_pairs_than_memory_holds(refused):
    def spoil(folder: Path) -> None:
        (folder / "lexicon" / "names_male.txt").write_text("".join(f"N{i}\n" for i in range(4_000)))
        (folder / "lexicon" / "professions.txt").write_text("".join(f"a p{i}\n" for i in range(4_000)))

    refused(SELECT, "16,008,000 [NAME, PROF] pairs; give lists that make at most 10,000,000", spoil)


# ---------------------------------------------------------------- a user's table

OWN_TABLES = {
    "a header alone": "sentence,target\n",
    "another column": "text,target\na [MASK],b\n",
    "no target": "sentence,aim\na [MASK],b\n",
    "two columns of one name": "sentence,target,target\na [MASK],b,c\n",
    "10,000 columns": ",".join(f"c{i}" for i in range(10_000)) + "\n",
    "a ragged row": "sentence,target\na [MASK],b,c\n",
    "a quote without end": 'sentence,target\n"a [MASK],b\n',
    "no mask": "sentence,target\na,b\n",
    "two masks": "sentence,target\n[MASK] [MASK],b\n",
    "2,000 masks": "sentence,target\n" + "[MASK]" * 2_000 + ",b\n",
    "an empty target": "sentence,target\na [MASK], \n",
    "NA for a target": "sentence,target\na [MASK],NA\n",
    "an empty sentence": "sentence,target\n,b\n",
    "the name of a result": "sentence,target,rank\na [MASK],dance,1\n",
    "1,001 groups": "sentence,target,group\n" + "".join(f"a [MASK],dance,{i}\n" for i in range(1_001)),
    "an escape of a terminal in a header": "sentence,target,\x1b[31m\na [MASK],dance,1\n",
    "lines of JSON": '{"sentence": "a [MASK]", "target": 5}\n',
    "a JSON list": "[1]\n",
    "nested lists": '{"sentence": ' + "[" * 100_000 + "\n",
}

ROWS = {
    "a sentence of 100,000 words": "sentence,target\n" + "a " * 50_000 + "[MASK],b\n",
    "a target of 5,000 letters": f"sentence,target\na [MASK],{LETTERS}\n",
    "a target that is a special token": "sentence,target\na [MASK],[SEP]\n",
    "the padding token": "sentence,target\na [PAD] [MASK],dance\n",
}


# ---------------------------------------------------------------- JSON lines

FACT = json.loads(LAMA)
LINES = {
    "a list": "[1]",
    "a value of 10,000 digits": f'{{"relation": {DIGITS}}}',
    "nested lists": "[" * 100_000,
    "a value of nested lists": '{"relation": ' + "[" * 900 + "]" * 900 + "}",
    "cut off": LAMA[:-1],
    "NaN": LAMA.replace('"P1"', "NaN"),
    "a number for a text": LAMA.replace('"P1"', "5"),
    "an empty text": LAMA.replace('"P1"', '" "'),
    "an escaped NUL": LAMA.replace("Anna likes", r"Anna \u0000likes"),
    "half a character": LAMA.replace("Anna likes", r"Anna \ud800likes"),
    "no mask": LAMA.replace("[MASK]", ""),
    "a text of 100,000 characters": LAMA.replace("likes", "likes " * 20_000),
    "a word of 5,000 letters": LAMA.replace('"P1"', f'"{LETTERS}|"'),
    "the same fact twice": f"{LAMA}\n{LAMA}",
    "another layout": '{"masked_misprimed": 5}',
    "only a subject": '{"sub_label": "Anna"}',
}

PACKED = {
    "cut off": gzip.compress(LAMA.encode())[:-9],
    "not packed": LAMA.encode(),
    "a false checksum": gzip.compress(LAMA.encode())[:-8] + b"12345678",
    "a line of 1 GB": gzip.compress(b"x" * 10**7) * 100,
    "empty": b"",
}

# ---------------------------------------------------------------- tables

ITEMS = {
    "only a header": SIMPLE.partition("\n")[0],
    "other columns": "a\tb\n1\t2\n",
    "a field too few": SIMPLE.replace("\tsmoke", ""),
    "100,000 fields": SIMPLE.replace("\tsmoke", "\t" * 100_000),
    "an empty field": SIMPLE.replace("\tsmoke", "\t "),
    "a mask": SIMPLE.replace("Anna is not", "[MASK] is not"),
    "a context of 100,000 characters": SIMPLE.replace("Anna is not", "Anna is not " * 10_000),
    "an item twice": SIMPLE + SIMPLE.partition("\n")[2],
}
PAIRS = {
    "only a header": NLI.partition("\n")[0],
    "other columns": "a\tb\n1\t2\n",
    "a word for a number": NLI.replace("\n0\t", "\nzero\t"),
    "a number of 10,000 digits": NLI.replace("\n0\t", f"\n{DIGITS}\t"),
    "a negative number": NLI.replace("\n0\t", "\n-1\t"),
    "a digit of another script": NLI.replace("\n0\t", "\n\u0663\t"),
    "a label of 5,000 letters": NLI.replace("\tnot_entailment", f"\t{LETTERS}"),
    "an empty text": NLI.replace("Anna likes to dance.", " "),
    "a text of 100,000 characters": NLI.replace("Anna likes", "Anna likes " * 10_000),
    "an index twice": NLI + NLI.partition("\n")[2],
}

SPOILT = {
    "patterns.toml": (SELECT, TOML),
    "own.csv": (PROBE, OWN_TABLES | ROWS),
    "lama/TREx.jsonl": (LAMA_COMMAND, LINES),
    "lama/TREx.jsonl.gz": (LAMA_COMMAND, PACKED),
    "diagnostics/NEG-136-SIMP.tsv": (DIAGNOSTICS, ITEMS),
    "nli/RTE.txt": (NLI_COMMAND, PAIRS),
}


USERS_FILES = [
    *((own, name, content) for name, (own, contents) in SPOILT.items() for content in contents.values()),
    *((SELECT, f"lexicon/{name}", f"{text}\n") for name, texts in LISTS.items() for text in texts),
]


@pytest.mark.parametrize(("arguments", "name", "content"), USERS_FILES, ids=lambda value: repr(value)[:40])
def test_a_file_that_is_not_what_it_should_be(refused, arguments, name, content):
    refused(arguments, "" if name.startswith("lexicon/") else name, written(name, content))


def test_a_context_that_takes_a_regular_expression_hours(refused):
    rows = "item\tcontext\texpected\texp_cloze\ttarget\n1-a\t" + "which  the " * 900 + "\ta|b\t0.5\tserved\n"
    arguments = ("diagnostics", "model", "--data", "ROLE-88.tsv")
    refused(arguments, "must end in `which", lambda folder: (folder / "ROLE-88.tsv").write_text(rows))


# ---------------------------------------------------------------- documents of this program

DOCUMENTS = {
    "empty": b"",
    "a list": b"[]",
    "cut off": b"{",
    "not UTF-8": b"\xff\xfe{}",
    "nested": b"[" * 100_000,
    "10,000 digits": b'{"format": ' + DIGITS.encode() + b"}",
    "a word for the format": b'{"format": "3"}',
    "a newer format": seal({"format": 99}),
    "only a format": seal({"format": 4}),
    "without its digest": b'{"format": 3, "stages": {}}',
}
READ_BY = {
    "run/run.json": [("score", "run"), ("compare", "run"), ("merge", "run", "-o", "whole"), (*SELECT, "-o", "run")],
    "trained/training.json": [TRAIN_NLI, (*TRAIN_CUES[:-2], "--encoder", "mini", "--device", "cpu")],
    "model/export.json": [SELECT, ("predict", "model", "a [MASK]"), ("gh22", "model")],
}


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        *((name, commands[0], content) for name, commands in READ_BY.items() for content in DOCUMENTS),
        *((name, others, "cut off") for name, commands in READ_BY.items() for others in commands[1:]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_document_that_is_not_one(refused, name, arguments, content):
    refused(arguments, name, written(name, DOCUMENTS[content]))


STAGE = {
    "parts of 10**9": {"parts": 10**9},
    "a shard of 5,000 letters": {"shard": LETTERS},
    "no identity": {"identity": {}},
    "an identity of nested lists": {"identity": {"x": json.loads("[" * 200 + "]" * 200)}},
}
DONE = {
    "a file elsewhere": {"files": {"../../payload": "0" * 64}},
    "a file of 5,000 letters": {"files": {LETTERS: "0" * 64}},
    "a digest that is none": {"files": {"triplets.parquet": "x"}},
}


EXPORT = {
    "a padding id below 0": {"padding_id": -1},
    "a vocabulary of 0": {"vocab_size": 0},
    "a vocabulary of 2**63": {"vocab_size": 2**63},
    "a name that leads elsewhere": {"name": "../../elsewhere"},
    "a name of 5,000 letters": {"name": LETTERS},
    "no files": {"files": {}},
    "a file elsewhere": {"files": {"../model.onnx": "0" * 64}},
    "another task": {"task": LETTERS},
    "another mask": {"mask_token": LETTERS},
    "an empty mask": {"mask_token": ""},
}


A_TRAINING = {"format": 1, "negengine": "0.1.0", "kind": "nli train", "identity": {}}
TRAINING = {
    "finished without a result": {"finished": True},
    "no epochs": {"finished": True, "result": {"steps": 1, "epochs": 0, "score": 0.5}},
    "a file elsewhere": {"files": {"../../payload": "0" * 64}},
    "another command": {"kind": LETTERS},
    "another model": {"identity": {"model": LETTERS}},
    "1,000 other settings": {"identity": {f"{LETTERS}{i}": i for i in range(1_000)}},
    "an identity of nested lists": {"identity": {"model": json.loads("[" * 200 + "]" * 200)}},
}


RUN_READERS = READ_BY["run/run.json"][:3]
MADE = {  # document → the commands that read it, and what somebody has changed in it
    "run/run.json": (RUN_READERS[:1], {name: {"stages": STAGE[name]} for name in STAGE}),
    "run/select.done.json": (RUN_READERS, DONE),
    "model/export.json": ([SELECT], EXPORT),
    "trained/training.json": ([TRAIN_NLI], TRAINING),
}


@pytest.mark.parametrize(
    ("name", "arguments", "change"),
    [(name, own, change) for name, (readers, changes) in MADE.items() for own in readers for change in changes],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_document_that_somebody_made_with_a_right_digest(refused, name, arguments, change):
    changed = MADE[name][1][change]

    def spoil(folder: Path) -> None:
        if name == "trained/training.json":
            (folder / "trained").mkdir()
            (folder / name).write_bytes(seal(A_TRAINING | changed))
        elif "stages" in changed:
            reseal(folder / name, lambda document: document["stages"]["select"].update(changed["stages"]))
        else:
            reseal(folder / name, lambda document: document.update(changed))

    refused(arguments, "trained" if name.startswith("trained") else "", spoil)


TOKENIZERS = {
    "empty": b"",
    "nested": b"[" * 100_000,
    "an unknown model": b'{"version": "1.0", "model": {"type": "x"}}',
    "no token": b'{"version": "1.0", "added_tokens": [], "model": {"type": "WordPiece", "vocab": {}, "unk_token": "x",'
    b' "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}}',
}


@pytest.mark.parametrize("content", TOKENIZERS)
def test_a_tokenizer_that_is_not_one(refused, content):
    def spoil(folder: Path) -> None:
        write_fake_export(folder / "model", TOKENIZERS[content].decode("latin-1"))

    refused(SELECT, "tokenizer.json", spoil)


def test_full_stops_after_initials_do_not_take_quadratic_time(command, tmp_path):
    """Each one ended a search of the whole line: hours for this one."""
    (tmp_path / "words.txt").write_text("A. " * 300_000 + "She never said so.\n")
    done = command("cues", "words.txt", "--json")
    assert done.status == 0
    assert json.loads(done.out)[0]["sentences"] == 1
