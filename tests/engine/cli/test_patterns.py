"""`negengine patterns check`: what it shows of a pattern set, and what it refuses."""

import json

import pytest
from fake_exports import write_fake_export
from negengine.engine.text.bundled import PATTERNS

BROKEN = """
name = "own"

[[pattern]]
name = "CpTp"
role = "selecting"
context = "{NAME} is {PROF} who likes to {ACT}."
target = "{PRON} is a expert who can {MASK}."
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory, small_tokenizers):
    tokenizer = small_tokenizers["WordPiece cased"].backend.to_str()
    return write_fake_export(tmp_path_factory.mktemp("models") / "model", tokenizer)


@pytest.mark.parametrize("name", PATTERNS)
def test_bundled_sets_pass(command, name):
    done = command("patterns", "check", name)
    assert (done.status, done.err) == (0, "")
    assert "No problem was found." in done.out


def test_ten_sentences_are_shown(command):
    shown = json.loads(command("patterns", "check", "french", "--json").out)
    assert len(shown["sentences"]) == 10
    assert {row["pattern"] for row in shown["sentences"]} == {"CpTp", "CpTn", "CnTp", "CnTn", "CpTv"}
    assert all(row["sentence"].endswith("pouvoir [MASK].") for row in shown["sentences"])
    assert shown["content"]["pairs"] == 18_200


def test_a_model_shows_tokens_and_verbs_that_drop_out(command, model, small_lexicon):
    done = command(
        "patterns", "check", "self-contained-negation", "--model", model, "--lexicon", small_lexicon, "--json"
    )
    assert done.status == 0, done.err
    shown = json.loads(done.out)
    tokens = shown["tokens"]
    assert tokens["verbs"] == 2  # smoke and dance are tokens of this vocabulary
    assert tokens["dropped"] == ["sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"]
    assert len(tokens["composed"]) == 5
    row = shown["sentences"][0]
    assert row["tokens"].replace("|", "") == row["sentence"].replace(" ", "")
    assert row["n_tokens"] == row["tokens"].count("|") + 3  # and two special tokens


def test_a_model_that_knows_no_verb_an_error_of_agreement_and_a_wrong_file_are_one_line(command, model, tmp_path):
    done = command("patterns", "check", "italian", "--model", model)
    assert done.status == 2
    assert "verbs.txt: none of 315 verbs is one token of model at the mask, so it cannot take the test" in done.said
    (tmp_path / "own.toml").write_text(BROKEN)
    done = command("patterns", "check", "own.toml")
    assert (done.status, done.said) == (2, "negengine: own.toml:4: 'a expert' should be 'an expert'")
    assert "Findings" in done.out
    (tmp_path / "own.toml").write_text(BROKEN.replace("{PRON}", "{PRO}"))
    done = command("patterns", "check", "own.toml")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("negengine: own.toml:8: unknown slot 'PRO'")
