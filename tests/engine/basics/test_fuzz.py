"""Every reader takes any bytes: a value or an InputError. `HYPOTHESIS_PROFILE=long` tries 80 times as many: minutes."""

import json
import os
import re
import shutil
import signal
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import negengine as ng
import polars as pl
import pytest
from fake_exports import write_fake_export
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from italian import FILES
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import parquet_bytes, parquet_frame
from negengine.engine.basics.reading import read_regular
from negengine.engine.basics.sealed import seal, unseal
from negengine.engine.experiments.cues.cue_texts import TextFile
from negengine.engine.experiments.cues.cue_words import cues_of, labels_of
from negengine.engine.experiments.cues.cues import cue_share
from negengine.engine.experiments.diagnostics.contexts import read_diagnostics
from negengine.engine.experiments.lama.facts import read_facts
from negengine.engine.experiments.likelihood.likelihood import Likelihood
from negengine.engine.experiments.negation.negation_runs import read_selected
from negengine.engine.experiments.nli.nli_pairs import read_benchmark, read_original
from negengine.engine.experiments.table_requests import TableRequests
from negengine.engine.inference.exported import load_exported, read_origin
from negengine.engine.inference.mixed import Calibration
from negengine.engine.inference.spans import Encoder
from negengine.engine.requests.span import Span
from negengine.engine.requests.vocabulary import Ranked
from negengine.engine.results.suite.suite_file import SuiteFile
from negengine.engine.runs import merge
from negengine.engine.runs.part import PartFiles
from negengine.engine.runs.results import begun_stages, finished_stage
from negengine.engine.text.language_check import Rules
from negengine.engine.text.pattern import PatternSet
from negengine.engine.text.pattern_files import load_language, load_patterns
from negengine.engine.text.table import open_table
from negengine.engine.text.tokenizer import MaskTokenizer, load_tokenizer
from negengine.export.training.cue_scores import read_columns
from small_stages import hold, work

NASTY = [
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[31m", b"[" * 2_000, b'{"a":' * 2_000, b"9" * 5_000, b"-", b"1e999",
    b"NaN", b"null", b"true", b'"', b"\\", b"\\u0000", b"\\ud800", b"\n", b"\r", b"\t", b" ", b"#", b"=", b"{ACT}",
    b"{MASK}", b"[MASK]", b"../../x", b"[[pattern]]", b"'''", b'"""', b"\xc3\xa9", "\u2028\u202e\U0001f600".encode(),
    b"x" * 1_100,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**64 - 1, 0.5, "", " ", "x", "x" * 5_000, "../../x", "/etc/passwd", "a\0b",
    "NUL", [], {}, [[]], [1], ["x"], {"a": 1}, {"x": {"y": []}},
]  # fmt: skip


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """Some bytes of a file changed, cut out, doubled or put in."""
    for _ in range(draw(st.integers(1, 4))):
        start, width = draw(st.integers(0, len(content))), draw(st.integers(0, 2) | st.integers(0, 40) | st.just(2**30))
        old, after = content[start : start + width], content[start + width :]
        as_long = st.binary(min_size=min(len(old), 40), max_size=min(len(old), 40))
        new = draw(as_long | st.sampled_from([b"", old + old, *NASTY]) | st.binary(max_size=8))
        content = content[:start] + new + after
        if draw(st.booleans()):
            new = draw(st.sampled_from([b"-1", b"0", b"9" * 20, b"9" * 5_000, b"1.5", b"null", b'"x"', b"[]"]))
            content = re.sub(rb"\d+", lambda _, new=new: new, content, count=draw(st.integers(1, 3)))
    return content


@st.composite
def edited(draw, content: bytes) -> bytes:
    """A sealed document with some values changed, removed or added, and the right digest."""
    document = unseal(content, dict)
    for _ in range(draw(st.integers(1, 3))):
        where: Any = document
        while isinstance(where, (dict, list)) and where:
            key = draw(st.sampled_from(list(where) if isinstance(where, dict) else range(len(where))))
            if isinstance(where[key], (dict, list)) and where[key] and draw(st.booleans()):
                where = where[key]
                continue
            if draw(st.booleans()):
                del where[key]
            if isinstance(where, dict):
                key = draw(st.sampled_from([key, "x", "../x", "format", ""]))
                where[key] = deepcopy(draw(st.sampled_from(VALUES)))  # a later step may change it
            break
    return seal(document or {"x": 1})


ROWS = {
    "ours/TREx.jsonl": {"relation": "P1", "sub_label": "A", "obj_label": "b", "masked_sentence": "A [MASK].",
                        "misprimed_random": "B? A [MASK]."},
    "primed/TREx/random/P36.jsonl": {"sub_label": "Paris", "obj_label": "France", "pred": "P36",
                                     "masked_sentences": ["Paris is in [MASK]."],
                                     "masked_negations": ["Paris is not in [MASK]."],
                                     "masked_misprimed": ["Italy? Paris is in [MASK]."]},
    "queries/ConceptNet/test.jsonl": {"pred": "IsA", "sub_label": "a", "obj_label": "b", "negated": [], "uuid": "1",
                                      "masked_sentences": ["a is [MASK]."]},
    "facts/TREx/P36.jsonl": {"sub_label": "Paris", "obj_label": "France", "uuid": "7"},
    "facts/relations.jsonl": {"relation": "P36", "template": "[X] is in [Y] .",
                              "template_negated": "[X] is not in [Y] ."},
    "rated/GoogleRE/place_of_birth.jsonl": {"sub_label": "Anna", "obj_label": "Rome",
                                            "judgments": [{"judgment": own} for own in ("yes", "no", "yes")]},
}  # fmt: skip
TEXTS = {
    **{f"italian/{name}": text for name, text in FILES.items()},
    "suite.toml": """\
name = "own"
[run]
threads = 2
[[model]]
model = "mini"
[[model]]
model = "lab/own"
revisions = ["step1000", "step_2k"]
[[probe]]
probe = "score"
pairs = 60
vary = {coreference = ["pronoun", "same-name"]}
models = ["mini"]
""",
    **{name: json.dumps(row) for name, row in ROWS.items()},
    "words.txt": "dance\nsmoke\n",
    "tables/CPRAG-102.tsv": "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
    "0\tThe dog ran.\tAt last it came to the\tdog\tcat\tcar\tH\n",
    "tables/ROLE-88.tsv": "item\tcontext\texpected\texp_cloze\ttarget\n"
    "1-b\tthe man forgot which waitress the customer had\ttipped|paid\t0.2\tserved\n"
    "1-a\tthe man forgot which customer the waitress had\tserved\t0.6\tserved\n",
    "tables/NEG-136-NAT.tsv": "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing\n"
    "0\tOld cars are\tOld cars aren't\tslow\tfast\tY\n",
    "RTE.txt": "type\tindex\tText\tHypothesis\tgold_label\r\nTneg-H\t0\tIt’s a dog.\tIt is not.\tnot_entailment\r\n",
    "dev.tsv": "sentence1\tsentence2\tlabel\nA man.\tNo man.\tentailment\nA dog.\tNo dog.\t-\n",
    "own.csv": 'sentence,n\n"A, [MASK].",1\nB [MASK],2\n',
    "own.tsv": "sentence\tn\nA [MASK].\t1\nB [MASK]\t2\n",
    "own.jsonl": '{"sentence": "A [MASK]", "n": 1, "tags": ["a"]}\n{"sentence": "B [MASK]", "n": 0.5}\n',
    "pairs.jsonl": '{"sentence_good": "A b.", "sentence_bad": "B a.", "UID": "x"}\n' * 2,
    "marked.txt": "t\t0\t0\tNeither\tx\tDT\t*\tNeither\t_\t_\t_\t_\t_\n"
    "t\t0\t1\tunhappy\tx\tJJ\t*\t_\thappy\t_\tun\t_\t_\nt\t0\t2\tnor\tx\tCC\t*\tnor\t_\t_\t_\t_\t_\n\nt\t1\t0\tIt\tit\tPRP\t*\t***\n",
    "text.txt": "He never said so. Mr. A. B. Smith isn't here, by no means.\nNo. 5 is alive!\n",
}


def read_run_folder(folder: Path, file: str) -> None:
    run = folder / file.split("/", maxsplit=1)[0]
    for stage in begun_stages(run):
        record = finished_stage(run, stage)
        for calibration in (record.calibration or {}).values():
            if "bias" in calibration:  # of mixed precision
                Calibration.from_json(calibration)
    opened = ng.open(run)
    assert opened.model_name, opened.conditions
    if (selected := read_selected(run)).has_several:
        assert selected.triplets["tokens"].min() > 1


def resume(folder: Path, _: str) -> None:
    with hold(folder / "small") as run:
        assert run.is_finished in {True, False}, run.needed_bounds()


def gather(folder: Path, _: str) -> None:
    shutil.rmtree(folder / "merged", ignore_errors=True)
    merge.merge([folder / "small"], folder / "merged", {"select": lambda _: {}})


def read_part(folder: Path, _: str) -> None:
    part = PartFiles(folder / "small", "select", 1).read()
    if part is not None:
        parquet_frame(part.content, folder)


def language(folder: Path, _: str) -> None:
    found = load_language(folder / "italian/patterns.toml")
    Rules(found).findings()
    assert found.lexicon.sha256, found.patterns.sha256


def read_pairs(folder: Path, file: str) -> object:
    columns = Likelihood(file).columns(table := open_table(folder / file, 1))
    kind, known = Span(), table.scan(columns.needed, columns.row_faults, skip_bad=True)
    requests = TableRequests.of(known, columns, kind, skip_bad=True)
    encoder = Encoder(MaskTokenizer.load(folder / "model", "[MASK]"))
    read = [requests.read(part) for part in range(len(requests.sizes))]
    return [encoder.encode([kind.read(None, text)[0] for text in own["text"].drop_nulls()]) for own in read]


def read_stimuli(folder: Path, file: str) -> None:
    stimuli = open_table(folder / file, 1).scan(["sentence"], skip_bad=True)
    assert sum(len(stimuli.read(part).frame) for part in range(len(stimuli.parts))) == stimuli.n - stimuli.skipped


def read_marked(folder: Path, file: str) -> None:
    for sentence in read_columns(folder / file):
        labels, lost = labels_of(sentence.words, sentence.cues)
        assert len(cues_of(sentence.words, labels)) == len(sentence.cues) - len(lost)


def read_text(folder: Path, file: str) -> None:
    cue_share(folder / file)
    text = TextFile.scan(folder / file, 10)
    assert sum(len(text.read(part)) for part in range(len(text.sizes))) == sum(text.sizes)


SEALED, SEVERAL = (damaged, edited), "several-tokens/triplets.parquet"
# Who reads which files, and how these are damaged; a reader gets the folder of all files, and the name of its own
READERS: list[Any] = [
    (language, [f"italian/{name}" for name in FILES if "female" not in name], [damaged]),
    (lambda folder, file: SuiteFile.read(folder / file).probes, ["suite.toml"], [damaged]),
    (lambda folder, file: read_facts([folder / file.split("/")[0]]).sha256, list(ROWS), [damaged]),
    (lambda folder, file: Ranked.of(str(folder / file)).sha256, ["words.txt"], [damaged]),
    (lambda folder, file: read_diagnostics(folder / file), [n for n in TEXTS if "tables" in n], [damaged]),
    (lambda folder, file: read_benchmark(folder / file, "RTE"), ["RTE.txt"], [damaged]),
    (lambda folder, file: read_original(folder / file, "RTE"), ["dev.tsv"], [damaged]),
    (read_text, ["text.txt"], [damaged]),
    (read_marked, ["marked.txt"], [damaged]),
    (read_pairs, ["pairs.jsonl"], [damaged]),
    (read_stimuli, ["own.csv", "own.tsv", "own.jsonl", "own.parquet"], [damaged]),
    (read_run_folder, ["run/run.json", "run/select.done.json"], SEALED),
    (read_run_folder, ["run/selection.json", "run/rates.parquet", SEVERAL], [damaged]),
    (resume, ["small/run.json"], SEALED),
    (resume, ["small/select.done.json"], [damaged]),
    (gather, ["small/run.json"], [edited]),
    (read_run_folder, ["several-tokens/run.json"], [edited]),
    (read_part, ["small/parts/select/part-00001.json"], SEALED),
    (read_part, ["small/parts/select/part-00001.parquet"], [damaged]),
    (lambda folder, file: parquet_frame(read_regular(folder / file, 2**20), folder), ["table.parquet"], [damaged]),
    (lambda folder, _: (read_origin(folder / "model"), load_exported(folder / "model")), ["model/export.json"], SEALED),
    (lambda folder, _: load_tokenizer(folder / "model"), ["model/tokenizer.json"], [damaged]),
    (
        lambda folder, _: PatternSet.from_json(unseal(read_regular(folder / "set.json", 2**20), dict)),
        ["set.json"],
        [edited],
    ),
]
CASES = [(file, read, damage) for read, files, damages in READERS for file in files for damage in damages]


@pytest.fixture(scope="session")
def material(tmp_path_factory, small_tokenizers, scored_run, several_tokens_run) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("cp1252" if name == "RTE.txt" else "utf-8"))
    write_fake_export(folder / "model", small_tokenizers["WordPiece cased"].backend.to_str())
    shutil.copytree(scored_run, folder / "run")
    shutil.copytree(several_tokens_run, folder / "several-tokens")
    work(folder / "small")
    (folder / "table.parquet").write_bytes(parquet_bytes(ng.open(scored_run).rates))
    pl.DataFrame({"sentence": ["A [MASK]", "B [MASK]"], "tags": [["a"], []]}).write_parquet(folder / "own.parquet")
    (folder / "set.json").write_bytes(seal(load_patterns().to_json()))
    return folder


@pytest.mark.parametrize(("file", "read", "damage"), CASES)
def test_a_right_file_is_read_and_any_other_bytes_are_a_value_or_an_input_error(material, tmp_path, file, read, damage):
    if read is not gather:  # a whole run is not a shard
        read(material, file)
    shutil.copytree(material, tmp_path, dirs_exist_ok=True)

    @settings(max_examples=settings().max_examples // 3, suppress_health_check=list(HealthCheck))
    @given(damage((material / file).read_bytes()))
    def check(content: bytes) -> None:
        (tmp_path / file).write_bytes(content)
        with suppress(InputError):  # the other outcome is a value
            read(tmp_path, file)

    check()
    (tmp_path / file).unlink()
    os.mkfifo(tmp_path / file)  # nobody writes into it, and nobody waits for it
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("a pipe was waited for"))
    signal.alarm(60)
    with suppress(InputError):
        read(tmp_path, file)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["triplets.parquet", "scores.parquet", "rates.parquet", "selection.json"])
def test_a_flipped_bit_in_a_result_is_noticed_also_after_the_run_was_opened(scored_run, tmp_path, name):
    run = shutil.copytree(scored_run, tmp_path / "run")
    opened, whole = ng.open(run), (run / name).read_bytes()
    (run / name).write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    for read in (lambda: (opened.items, opened.rates, opened.selection), lambda: (ng.open(run), read_selected(run))):
        with pytest.raises(InputError, match=rf"{name}: missing, or changed since the run wrote it"):
            read()
