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

    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"still at work after {SECONDS} seconds"))
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
    detector = {"task": "token-classification", "labels": list(LABELS), "vocab_size": len(LABELS)}
    write_fake_export(folder / "detector", tokenizer, **detector)
    shutil.copytree(small_lexicon, folder / "lexicon")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    work(folder / "run")
    (folder / "odd").mkdir()
    os.mkfifo(folder / "odd/pipe.txt")
    return folder


PATTERNS = """\
name = "own"
[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} is {PROF} who likes to {ACT}."
target = "{PRON} is happy to {MASK}."
"""
LAMA = '{"relation": "P1", "sub_label": "Anna", "obj_label": "dance", "masked_sentence": "Anna likes to [MASK]."}'
SIMPLE = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n0\tAnna is\tAnna is not\tdancer\tsmoke\n"
NLI = "type\tindex\tText\tHypothesis\tgold_label\nTneg-H\t0\tAnna likes to dance.\tAnna does not.\tnot_entailment\n"
GLUE = "index\tsentence1\tsentence2\tlabel\n0\tAnna dances.\tAnna does not.\tnot_entailment\n"
FILES = {
    "lama/TREx.jsonl": LAMA,
    "diagnostics/NEG-136-SIMP.tsv": SIMPLE,
    "nli/RTE.txt": NLI,
    "glue/train.tsv": GLUE,
    "glue/dev.tsv": GLUE,
    "patterns.toml": PATTERNS,
    "suite.toml": '[[model]]\nmodel = "model"\n[[probe]]\nprobe = "select"\n',
    "sentences.csv": "sentence\nAnna likes to dance.\n",
    "words.txt": "dance\nsmoke\n",
    "text.txt": "She never dances.\n",
    "marked.txt": "t\t0\t0\tnever\tnever\tRB\t*\tnever\t_\t_\n\n" * 9,
    "own.csv": "sentence,target,group\nAnna likes to [MASK].,dance,a\nJohn likes to [MASK].,smoke,b\n",
}


@pytest.fixture
def refused(command, material, monkeypatch, tmp_path, no_session):
    """Runs a command in the material, or in a copy of it that `spoil` has changed; at most a run folder is new."""

    def run(words, said, spoil=None, *more):
        folder = material
        if spoil is not None:
            shutil.rmtree(tmp_path / "spoilt", ignore_errors=True)
            folder = shutil.copytree(material, tmp_path / "spoilt", ignore=shutil.ignore_patterns("odd"))
            spoil(folder)
        monkeypatch.chdir(folder)
        there = sorted(folder.rglob("[!.]*"))
        done = command(*words.split(), *more)
        shutil.rmtree(folder / "runs", ignore_errors=True)
        assert sorted(folder.rglob("[!.]*")) == there
        *before, line = done.err.splitlines()
        usual = ("RTE: 1 pairs to learn from", "RTE, dev: of 1 pairs", "probe: ")
        before = [other for other in before if not other.startswith(usual)]
        assert (done.status, done.out, before) == (2, "", []), done.err[-2_000:]
        assert line.startswith("negengine: ")
        assert len(line) <= LONGEST + len(str(folder))
        assert said in line, line

    return run


def written(name, content):
    """Writes a file of the material anew; None is a pipe that nobody writes to."""

    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix("").unlink(missing_ok=True)  # a packed file stands for the same one unpacked
        if content is None:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return spoil


SELECT = "select model --lexicon lexicon --patterns patterns.toml"
LAMA_COMMAND = "lama model --data lama"
DIAGNOSTICS = "diagnostics model --data diagnostics --dataset NEG-136-SIMP"
NLI_COMMAND = "nli classifier --data nli --source RTE"
TRAIN_NLI = "nli train mini --new-pooler --task rte --data glue -o trained --device cpu --max-length 32"
TRAIN_CUES = "cues train marked.txt -o trained --device cpu --encoder"
PROBE = "probe model own.csv"
LIKELIHOOD = "likelihood model sentences.csv"
READERS = [  # (file, the command that reads it)
    *((f"lexicon/{name}.txt", SELECT) for name in ("verbs", "names_male", "professions", "pronouns", "articles")),
    ("lexicon/agreement.toml", "patterns check patterns.toml --lexicon lexicon"),
    ("patterns.toml", SELECT),
    ("suite.toml", "suite suite.toml"),
    ("lama/TREx.jsonl", LAMA_COMMAND),
    ("words.txt", f"{LAMA_COMMAND} --vocabulary words.txt"),
    ("diagnostics/NEG-136-SIMP.tsv", DIAGNOSTICS),
    ("nli/RTE.txt", NLI_COMMAND),
    ("own.csv", PROBE),
    ("sentences.csv", LIKELIHOOD),
    ("text.txt", "cues text.txt --detector detector"),
    ("marked.txt", f"{TRAIN_CUES} encoder"),
    ("glue/train.tsv", TRAIN_NLI),
]


@pytest.mark.parametrize(("name", "words"), READERS)
def test_bytes_that_are_not_text_an_empty_file_and_a_pipe_that_nobody_writes_to(refused, name, words):
    refused(words, f"{name}:", written(name, b"dance\nsm\0ke\n"))
    refused(words, Path(name).name, written(name, None))
    if name not in {"lexicon/articles.txt", "lexicon/agreement.toml"}:  # which may be empty
        refused(words, name, written(name, b""))


def test_a_name_that_is_neither_a_folder_of_words_nor_one_for_results(refused):
    for odd in ("/dev/zero", LETTERS, "a\0b.txt", "words.txt/x.txt"):
        refused("select model --lexicon", "", None, odd)
        refused(SELECT, "", None, "-o", odd)
    for words in ("select model --lexicon", "score run --model", "compare", "merge -o whole", "merge --status"):
        refused(words, "", None, "odd/pipe.txt")


VALUES = {
    "predict model": ["", "word " * 5_000 + "[MASK]"],
    f"{SELECT} --seed": [DIGITS, str(2**63)],
    f"{DIAGNOSTICS} --draws": ["1000000000"],
    f"{NLI_COMMAND} --max-length": ["65"],
    f"{PROBE} --target": [LETTERS, "a\0b"],
    f"{LIKELIHOOD} --pair sentence --acceptable": [LETTERS],
    "gh22 model --ranks": [DIGITS, ",".join(["1"] * 10_000)],
    f"{SELECT} --shard": [f"1/{DIGITS}", "0/0"],
    f"{SELECT} --device": [f"cuda:{DIGITS}", ",".join(["cpu"] * 10_000)],
    "select model --patterns": ["a\nb", "\udcff"],
    f"{NLI_COMMAND} --original": [LETTERS, "RTE=odd/pipe.txt"],
}


@pytest.mark.parametrize("words", VALUES)
def test_a_value_that_an_option_cannot_have(refused, words):
    for value in VALUES[words]:
        refused(words, "", None, value)


SPOILT = {  # the command and contents that are too long for it; basics/test_fuzz has others by chance
    "patterns.toml": (SELECT, PATTERNS.replace("{ACT}", f"{{{LETTERS}}}")),
    "own.csv": (PROBE, ",".join(f"c{i}" for i in range(10_000)) + "\n"),
    "lama/TREx.jsonl": (LAMA_COMMAND, f'{{"relation": {DIGITS}}}'),
    "lama/TREx.jsonl.gz": (LAMA_COMMAND, gzip.compress(b"x" * 10**7) * 100),
    "nli/RTE.txt": (NLI_COMMAND, NLI.replace("Anna likes", "Anna likes " * 10_000)),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_file_that_is_too_long_for_its_reader_or_its_error(refused, name):
    words, content = SPOILT[name]
    refused(words, name, written(name, content))


def test_lists_that_make_more_pairs_than_memory_holds(refused):
    def spoil(folder: Path) -> None:
        for name, begin in (("names_male", "N"), ("professions", "a p")):
            written(f"lexicon/{name}.txt", "".join(f"{begin}{i}\n" for i in range(4_000)))(folder)

    refused(SELECT, "16,008,000 name–profession pairs; give lists that make at most 10,000,000", spoil)


def test_texts_that_would_take_a_regular_expression_hours(refused, command, tmp_path):
    rows = "item\tcontext\texpected\texp_cloze\ttarget\n1-a\t" + "which  the " * 900 + "\ta|b\t0.5\tserved\n"
    refused("diagnostics model --data ROLE-88.tsv", "must end in `which", written("ROLE-88.tsv", rows))
    initials = tmp_path / "initials.txt"
    initials.write_text("A. " * 300_000 + "She never said so.\n")
    assert json.loads(command("cues", initials, "--json").out)[0]["sentences"] == 1


def test_a_training_that_somebody_made_with_a_right_digest(refused):
    made = {"format": 1, "negengine": "0.1.0", "kind": "nli train", "identity": {}}
    for changed in ({"files": {"../../payload": "0" * 64}}, {"identity": {"model": json.loads("[" * 200 + "]" * 200)}}):
        refused(TRAIN_NLI, "trained", written("trained/training.json", seal(made | changed)))
