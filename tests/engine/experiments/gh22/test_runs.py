"""Runs of `gh22`: stopped, compared, in shards, in mixed precision; its patterns, and summaries of hand-made items."""

import itertools
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import negengine as ng
import numpy as np
import polars as pl
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import file_sha256
from negengine.engine.experiments.gh22.gh22 import Acts, Gh22, Variant, load_variant
from negengine.engine.inference.exported import write_manifest
from negengine.engine.inference.mixed import FIRST_CHOICES
from negengine.engine.requests.composed import NOT_A_TEXT, ComposedRequests
from negengine.engine.requests.stage import RequestStage
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.finished import open_run
from transformers import BertForMaskedLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

NUMBERS = ("rank", "logprob", "top1_logprob", "precision")
VARIANTS = {variant: load_variant(variant) for variant in Variant}
SENTENCE = VARIANTS[Variant.ORIGINAL].selecting
TARGETS = ["likes to", "does like to", "really likes to", "really does like to"]
WORDS = {"names_female": ["Jessica", "Maria"], "names_male": ["John"], "professions": ["a dancer", "an architect"]}
WORDS |= {"verbs": ["smoke", "dance", "sing"], "pronouns": ["female = she", "male = they"]}


@pytest.fixture(scope="module")
def run(mini, tmp_path_factory):
    """Runs the test on three names and two professions; other words replace some of theirs.

    One thread: other numbers of threads make other batches, which change the last digits of logits.
    """
    folder = tmp_path_factory.mktemp("words")

    def run(output, precision="fp32", model=mini.folder, words=None, **options):
        lists = WORDS | (words or {})
        lexicon = folder / str(abs(hash(str(lists))))
        lexicon.mkdir(exist_ok=True)
        for name, own in lists.items():
            (lexicon / f"{name}.txt").write_text("\n".join(own), "utf-8")
        opened = ng.load(model, device="cpu", precision=precision, threads=1)
        given = {"ranks": (1, 50, 100), "again": "negengine gh22 mini", "progress": False, **options}
        return ng.gh22(opened, lexicon=lexicon, output=output, **given)

    return run


@pytest.fixture(scope="module")
def finished(run, tmp_path_factory):
    """All variants."""
    return run(tmp_path_factory.mktemp("run") / "gh22")


@pytest.fixture
def small_parts(monkeypatch):
    """18 ACTs are in several parts."""
    monkeypatch.setattr(Acts, "requests_per_part", 7)
    monkeypatch.setattr(Gh22, "requests_per_part", 5)


@pytest.mark.parametrize(("call", "state"), [(2, "acts is not finished"), (5, "gh22 is not finished")])
@pytest.mark.usefixtures("small_parts")
def test_a_run_that_was_stopped_says_how_to_go_on(call, state, run, tmp_path, interrupt):
    """The second part of either round."""
    interrupt(RequestStage, "decide", call)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", variant="original")
    with pytest.raises(InputError, match=f"{state}; to resume it: negengine gh22 mini --output "):
        open_run(tmp_path / "run")


def test_runs_are_compared_by_words_on_the_variants_that_both_have(finished, run, tmp_path):
    """A lexicon with some of the words in another order: the same model differs from itself in nothing."""
    words = {"names_female": ["Jessica"], "professions": WORDS["professions"][::-1]}
    found = compare(finished, run(tmp_path / "run", words=words, variant="original")).frame
    assert found.select("n", "condition", "difference").unique().rows() == [(4, "original", 0.0)]
    assert len(found) == 8 * 3


def test_first_choices_and_rates_are_those_of_fp32_and_rows_of_the_reference_model_have_its_numbers(
    finished, run, tmp_path, monkeypatch
):
    """With a calibration and an audit of 60 sentences; those of longer runs would be all sentences of this one."""
    monkeypatch.setattr(ComposedRequests, "method", replace(FIRST_CHOICES, sizes=(60, 60)))
    mixed = run(tmp_path / "gh22", "mixed")
    assert mixed.items.drop(NUMBERS).equals(finished.items.drop(NUMBERS))
    assert mixed.summary.equals(finished.summary)
    assert [set(run.items["precision"]) for run in (finished, mixed)] == [{"fp32"}, {"fp32", "int8"}]
    exact = (mixed.items["precision"] == "fp32").to_numpy()
    own, other = (run.items.select(NUMBERS[:3]).to_numpy()[exact] for run in (mixed, finished))
    np.testing.assert_array_equal(own[:, 0], other[:, 0])
    np.testing.assert_allclose(own, other, atol=1e-4)
    assert "Mixed precision: " in str(mixed)


@pytest.fixture(scope="module")
def bytewise(mini, small_tokenizers, tmp_path_factory):
    """The bundled weights with a byte-level BPE: most of its tokens are bytes."""
    folder = tmp_path_factory.mktemp("bytewise") / "model"
    shutil.copytree(mini.folder, folder)
    tokenizer = small_tokenizers["byte-level BPE"]
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    digests = {**mini.info["files"], "tokenizer.json": file_sha256(folder / "tokenizer.json")}
    write_manifest(folder, {**mini.info, "mask_token": tokenizer.mask_token, "padding_id": 1, "files": digests})
    return folder


def test_an_act_that_is_a_part_of_a_character_or_a_space_is_not_asked_and_is_counted(
    bytewise, run, tmp_path, monkeypatch
):
    """By one sentence at a time in PyTorch; a byte is read by the table of GPT-2, not by the decoder."""
    ranks, names = (1, 40, 90, 200), {"Maria": "she", "John": "they"}
    variants = {variant: replace(own, scored=own.scored[:2]) for variant, own in VARIANTS.items()}
    monkeypatch.setattr(Gh22, "variants", variants)
    monkeypatch.setattr(Gh22, "requests_per_part", 3)
    words = {"names_female": ["Maria"], "professions": ["a dancer"]}
    found = run(tmp_path / "run", model=bytewise, words=words, ranks=ranks)
    network = BertForMaskedLM.from_pretrained(Path(__file__).parents[4] / "export" / "mini").eval()
    tokenizer = found.model.exported.tokenizer
    backend, byte_of = tokenizer.backend, {shown: byte for byte, shown in bytes_to_unicode().items()}
    vocabulary = {number: token for token, number in backend.get_vocab().items()}

    def logits(text):
        ids = backend.encode(text).ids
        with torch.no_grad():
            return network(torch.tensor([ids])).logits[0, ids.index(tokenizer.mask_id)].double()

    def text_of(number):
        text = bytes(byte_of[shown] for shown in vocabulary[number]).decode("utf-8", "replace").strip()
        return text if text.isprintable() and "\ufffd" not in text else ""

    rows, lost, n_acts = {}, Counter(), len(names)
    for name, pronoun in names.items():
        fillers = {"NAME": name, "PROF": "a dancer", "PRON": pronoun}
        own = logits(SENTENCE.text(fillers, "<mask>"))
        ranked = sorted(set(vocabulary) - {0, 1, 2, 3, tokenizer.mask_id}, key=lambda i: (-own[i].item(), i))
        for rank, (variant, patterns) in itertools.product(ranks, variants.items()):
            acts = dict(zip(("ACT", "ACT1", "ACT2"), ranked[rank - 1 :], strict=False))
            texts = {slot: text_of(act) for slot, act in acts.items()}
            needed = texts if variant == "coordinated" else ["ACT"]
            if not all(texts[slot] for slot in needed):
                lost[str(variant), f"ACT@{rank}"] += 1
                continue
            for pattern in patterns.scored:
                asked = logits(pattern.text({**fillers, **texts}, "<mask>"))
                of = int((asked > asked[acts["ACT"]]).sum()) + 1
                rows[str(variant), pattern.name, name, rank] = (texts["ACT"], of)
    asked = found.items.filter(pl.col("why").is_null())
    seen = asked.select("condition", "pattern", "name", "at_rank", "act", "rank")
    assert set(found.items["why"].drop_nulls()) == {NOT_A_TEXT}
    assert {row[:4]: row[4:] for row in seen.iter_rows()} == rows
    assert 0 < len(rows) < 6 * n_acts * len(ranks)
    shares = found.summary.filter(metric="act_not_a_text").select("condition", "split", "value", "n")
    wanted = {key: (pytest.approx(n / n_acts), n_acts) for key, n in lost.items()}
    assert {row[:2]: row[2:] for row in shares.iter_rows()} == wanted
    [said] = [told for told in found.remarks() if NOT_A_TEXT in told]
    assert said.startswith("ACTs excluded: ")
    assert found.acts["act_is_text"].to_list() == [bool(text_of(act)) for act in found.acts["act_id"]]
    assert not ng.verify(found, model=bytewise, sample=5).damage


def test_the_eight_patterns_of_each_variant_are_those_of_the_papers():
    for variant, acts, *connectives in (
        ("original", "{ACT}", "", ""),
        ("connective", "{ACT}", "So, ", "However, "),
        ("coordinated", "{ACT}, {ACT1} or {ACT2}", "", ""),
    ):
        contexts = f"who tries to {acts} as often as possible.", f"who doesn't like to {acts}."
        assert {pattern.name: pattern.sentence for pattern in VARIANTS[variant].scored} == {
            f"{number}{end}": f"{{NAME}} is {{PROF}} {context} {connective}{{PRON}} {target} {{MASK}}."
            for number, target in enumerate(TARGETS, 1)
            for end, context, connective in zip("PN", contexts, connectives, strict=True)
        }
        assert VARIANTS[variant].selecting.sentence == "{NAME} is {PROF} and {PRON} likes to {MASK}"


def test_any_of_the_three_verbs_counts_in_the_coordinated_variant_alone(finished):
    for row in finished.items.to_dicts():
        repeats = row["top1_id"] in {row["act_id"], row["act1_id"], row["act2_id"]}
        assert row["repetition_rate:any"] == (repeats if row["condition"] == "coordinated" else None)
