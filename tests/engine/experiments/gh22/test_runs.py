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
from asked_stages import cell
from fake_models import files
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.basics.reading import file_sha256
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import Gh22Run, run_both
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.experiments.gh22.repetitions import Repetitions, summarise
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.exported import load_exported, write_manifest
from negengine.engine.inference.mixed import FIRST_CHOICES
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.finished import open_run
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution
from negengine.engine.runs.merge import merge
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.record import Session
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon, load_lexicon
from transformers import BertForMaskedLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

NUMBERS = ("expected_rank", "expected_logprob", "top1_logprob", "precision")
VARIANTS = {variant: load_variant(variant) for variant in Variant}
ORIGINAL = {Variant.ORIGINAL: VARIANTS[Variant.ORIGINAL]}
SENTENCE = VARIANTS[Variant.ORIGINAL].selecting
TARGETS = ["likes to", "does like to", "really likes to", "really does like to"]
LEXICON = Lexicon(
    names=("Jessica", "Maria", "John"),
    genders=("f", "f", "m"),
    professions=("a dancer", "an architect"),
    verbs=load_lexicon().verbs,
    pronouns={"f": "she", "m": "they"},
)


def run(acts, variants, folder, *, shard="1/1", precision=Precision.FP32, **sizes):
    """One thread: other numbers of threads make other batches, which change the last digits of logits."""
    options, session = Opening(precision=precision, threads=1), Session(again="negengine gh22 mini")
    work = Execution(ThisProcess(CPU), options, Shard.parse(shard), Reporter(silent=True), session)
    run_both(acts, variants, folder, work, **sizes)
    return folder


@pytest.fixture(scope="module")
def acts(mini):
    """The first stage over six pairs, in parts of four."""
    return Acts.plan(mini, LEXICON, SENTENCE, ranks=(1, 50, 100), pairs_per_part=4)


@pytest.fixture(scope="module")
def finished(acts, tmp_path_factory):
    """All variants."""
    return Gh22Run.open(run(acts, VARIANTS, tmp_path_factory.mktemp("run") / "gh22"))


@pytest.mark.parametrize(
    ("stage", "function", "call", "state"),
    [
        (Acts, "decide", 2, "acts is not finished"),
        (Repetitions, "decide", 2, "gh22 is not finished"),
    ],
)
def test_a_run_that_was_stopped_says_how_to_go_on(stage, function, call, state, acts, tmp_path, interrupt):
    interrupt(stage, function, call)
    with pytest.raises(KeyboardInterrupt):
        run(acts, ORIGINAL, tmp_path / "run", acts_per_part=5)
    with pytest.raises(InputError, match=f"{state}; to resume it: negengine gh22 mini --output "):
        open_run(tmp_path / "run")


def test_runs_are_compared_by_words_on_the_variants_that_both_have(finished, acts, tmp_path):
    """A lexicon with some of the words in another order: the same model differs from itself in nothing."""
    words = replace(LEXICON, names=("John", "Jessica"), genders=("m", "f"), professions=LEXICON.professions[::-1])
    other = Acts.plan(acts.exported, words, acts.pattern, ranks=acts.ranks)
    found = compare(finished, run(other, ORIGINAL, tmp_path / "run")).frame
    assert found.select("n", "condition", "difference").unique().rows() == [(4, "original", 0.0)]
    assert len(found) == 8 * len(acts.ranks)


def test_first_choices_and_rates_are_those_of_fp32_and_rows_of_the_reference_model_have_its_numbers(
    finished, acts, tmp_path, monkeypatch
):
    """With a calibration and an audit of 60 sentences; those of longer runs would be all sentences of this one."""
    monkeypatch.setattr(Repetitions, "method", replace(FIRST_CHOICES, sizes=(60, 60)))
    mixed = Gh22Run.open(run(acts, VARIANTS, tmp_path / "gh22", precision=Precision.MIXED))
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
    return load_exported(folder)


def test_an_act_that_is_a_part_of_a_character_or_a_space_is_not_asked_and_is_counted(bytewise, tmp_path):
    """By one sentence at a time in PyTorch; a byte is read by the table of GPT-2, not by the decoder."""
    ranks = (1, 40, 90, 200)
    words = replace(LEXICON, names=("Maria", "John"), genders=("f", "m"), professions=("a dancer",))
    variants = {variant: replace(own, scored=own.scored[:2]) for variant, own in VARIANTS.items()}
    chosen = Acts.plan(bytewise, words, SENTENCE, ranks=ranks)
    found = Gh22Run.open(run(chosen, variants, tmp_path / "run", acts_per_part=3))
    network = BertForMaskedLM.from_pretrained(Path(__file__).parents[4] / "export" / "mini").eval()
    backend, byte_of = bytewise.tokenizer.backend, {shown: byte for byte, shown in bytes_to_unicode().items()}
    vocabulary = {number: token for token, number in backend.get_vocab().items()}

    def logits(text):
        ids = backend.encode(text).ids
        with torch.no_grad():
            return network(torch.tensor([ids])).logits[0, ids.index(bytewise.tokenizer.mask_id)].double()

    def text_of(number):
        text = bytes(byte_of[shown] for shown in vocabulary[number]).decode("utf-8", "replace").strip()
        return text if text.isprintable() and "\ufffd" not in text else ""

    rows, lost, n_acts = {}, Counter(), len(words.names)
    for pair, (name, gender) in enumerate(zip(words.names, words.genders, strict=True)):
        fillers = {"NAME": name, "PROF": "a dancer", "PRON": words.pronouns[gender]}
        own = logits(SENTENCE.text(fillers, "<mask>"))
        ranked = sorted(set(vocabulary) - {0, 1, 2, 3, bytewise.tokenizer.mask_id}, key=lambda i: (-own[i].item(), i))
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
                rows[str(variant), pattern.name, pair, rank] = (texts["ACT"], of)
    seen = found.items.select("condition", "pattern", "pair", "rank", "act", "expected_rank")
    assert {row[:4]: row[4:] for row in seen.iter_rows()} == rows
    assert 0 < len(rows) < 6 * n_acts * len(ranks)
    shares = found.summary.filter(metric="act_not_a_text").select("condition", "split", "value", "n")
    wanted = {key: (pytest.approx(n / n_acts), n_acts) for key, n in lost.items()}
    assert {row[:2]: row[2:] for row in shares.iter_rows()} == wanted
    said = "original: ACTs that are not texts of their own, such as a byte, were not asked: "
    assert said in str(found)
    assert f"{lost['original', 'ACT@200']} of {n_acts} at rank 200" in str(found)
    assert found.acts["act_is_text"].to_list() == [bool(text_of(act)) for act in found.acts["act_id"]]
    assert not ng.verify(found, model=bytewise.folder, sample=5).damage


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


def test_shards_are_merged_to_the_same_bytes(acts, tmp_path):
    """The original patterns alone, 18 ACTs in four parts."""
    whole = run(acts, ORIGINAL, tmp_path / "run", acts_per_part=5)
    shards = [run(acts, ORIGINAL, tmp_path / str(i), shard=f"{i}/2", acts_per_part=5) for i in (1, 2)]
    assert [[path.name for path in shard.glob("*.parquet")] for shard in shards] == [["acts.parquet"]] * 2
    publishers = {stage.name: stage.publish for stage in (Acts, Repetitions)}
    merge(shards, tmp_path / "whole", publishers)
    assert files(tmp_path / "whole") == files(whole)


def summary(outcomes, condition="original"):
    """An outcome of a pair is (P repeated, N repeated)."""
    names = ("condition", "pair", "rank", "pattern", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
    rows = [
        (condition, pair, 50, f"1{side}", repeated, True, True, False)
        for pair, outcome in enumerate(outcomes)
        for side, repeated in zip("PN", outcome, strict=True)
    ]
    return summarise(pl.DataFrame(rows, schema=names, orient="row"))


def test_the_drop_of_the_same_pairs_has_mcnemars_test():
    """P repeats in 8 of 10, N in 3. Six pairs repeat in P alone, one in N alone: p = 2 · (C(7,0) + C(7,1)) / 2⁷."""
    found = summary([(True, False)] * 6 + [(True, True)] * 2 + [(False, True)] + [(False, False)])
    for metric in ("p:repetition_rate", "p_holm:repetition_rate"):
        assert cell(found, "GH22", "original", "1@50", metric)["value"] == pytest.approx(0.125)
    assert cell(found, "GH22", "original", "ACT@50", "act_not_a_verb")["value"] == 1
    # Any of the three verbs counts in the coordinated variant alone.
    found = summary([(False, False)] * 4, "coordinated")
    assert cell(found, "GH22", "coordinated", "1P@50", "repetition_rate:any")["value"] == 1
