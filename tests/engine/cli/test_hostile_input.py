"""Options and files that nobody should give: each is one line of sensible length and status 2, and none hangs.

Files that are damaged by chance, and pipes in their places, are in basics/test_fuzz.
"""

import json
import os
import signal

import pytest
from negengine.engine.basics.sealed import seal

pytestmark = pytest.mark.long

SECONDS = 60  # far more than a command takes that refuses its input
LONGEST = 680  # characters of a line on stderr
DIGITS = "9" * 10_000
LETTERS = "x" * 5_000
SIMPLE = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n0\tAnna is\tAnna is not\tdancer\tsmoke\n"
GLUE = "index\tsentence1\tsentence2\tlabel\n0\tAnna dances.\tAnna does not.\tnot_entailment\n"
FILES = {
    "NEG-136-SIMP.tsv": SIMPLE,
    "ROLE-88.tsv": "item\tcontext\texpected\texp_cloze\ttarget\n1-a\t" + "which  the " * 900 + "\ta|b\t0.5\tserved\n",
    "train.tsv": GLUE,
    "dev.tsv": GLUE,
    "sentences.csv": "sentence\nAnna likes to dance.\n",
    "own.csv": "sentence,target,group\nAnna likes to [MASK].,dance,a\nJohn likes to [MASK].,smoke,b\n",
    "text.txt": "A. " * 300_000 + "She never said so.\n",
}


@pytest.fixture
def patience():
    """A command that waits for ever fails instead."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"still at work after {SECONDS} seconds"))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def refused(command, mini, small_lexicon, tmp_path, no_session, patience):
    """Runs a command in a folder of files; MODEL and LEXICON stand for ours. Nothing is left behind."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    os.mkfifo(tmp_path / "pipe.txt")

    def run(words, said, *more):
        there = sorted(tmp_path.rglob("[!.]*"))
        places = {"MODEL": mini.folder, "LEXICON": small_lexicon}
        done = command(*(places.get(word, word) for word in words.split()), *more)
        assert sorted(tmp_path.rglob("[!.]*")) == there
        *before, line = done.err.splitlines()
        before = [
            other for other in before if not other.startswith(("RTE: 1 pairs to learn", "RTE, dev: of 1", "probe: "))
        ]
        assert (done.status, done.out, before) == (2, "", []), done.err[-2_000:]
        assert line.startswith("negengine: ")
        assert len(line) <= LONGEST + len(str(tmp_path))
        assert said in line, line

    return run


SELECT = "select MODEL --lexicon LEXICON"
VALUES = {
    "predict MODEL": ["", "word " * 5_000 + "[MASK]"],
    f"{SELECT} --seed": [DIGITS, str(2**63)],
    f"{SELECT} --shard": [f"1/{DIGITS}", "0/0"],
    f"{SELECT} --device": [f"cuda:{DIGITS}", ",".join(["cpu"] * 10_000)],
    "select MODEL --patterns": ["a\nb", "\udcff"],
    "diagnostics MODEL --data NEG-136-SIMP.tsv --draws": ["1000000000"],
    "probe MODEL own.csv --target": [LETTERS, "a\0b"],
    "likelihood MODEL sentences.csv --pair sentence --acceptable": [LETTERS],
    "gh22 MODEL --ranks": [DIGITS, ",".join(["1"] * 10_000)],
    # names that are neither a folder of words nor one for results, of a model or of a run
    "select MODEL --lexicon": ["/dev/zero", LETTERS, "a\0b.txt", "own.csv/x.txt", "pipe.txt"],
    f"{SELECT} -o": ["/dev/zero", LETTERS, "a\0b.txt", "own.csv/x.txt"],
    "score run --model": ["pipe.txt"],
    "compare": ["pipe.txt"],
    "merge -o whole": ["pipe.txt"],
    "merge --status": ["pipe.txt"],
}


@pytest.mark.parametrize("words", VALUES)
def test_a_value_that_an_option_cannot_have(refused, words):
    for value in VALUES[words]:
        refused(words, "", value)


def test_texts_that_would_take_a_regular_expression_hours(refused, command):
    refused("diagnostics MODEL --data ROLE-88.tsv", "must end in `which")
    assert json.loads(command("cues", "text.txt", "--json").out)[0]["sentences"] == 1


def test_a_training_that_somebody_made_with_a_right_digest(refused, tmp_path):
    made = {"format": 1, "negengine": "0.1.0", "kind": "nli train", "identity": {}}
    (tmp_path / "trained").mkdir()
    train = "nli train mini --new-pooler --task rte --data . -o trained --device cpu --max-length 32"
    for changed in ({"files": {"../../payload": "0" * 64}}, {"identity": {"model": json.loads("[" * 200 + "]" * 200)}}):
        (tmp_path / "trained" / "training.json").write_bytes(seal(made | changed))
        refused(train, "trained")
