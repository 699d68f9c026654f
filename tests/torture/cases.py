"""The commands that are tortured: what they work on, where each starts, and the files that it must give."""

import io
import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .child import Children, Ended
from .faults import CHANGING, Fault, Mode

RESULT = "run"  # the folder that each command writes
_NOT_RESULTS = {".lock", "lock", "sessions"}  # locks, checks of an export, processes
Files = dict[str, bytes]  # by their relative path; of run.json only what does not tell times and processes


@dataclass(frozen=True)
class Case:
    """A command."""

    name: str  # as the table shows it
    arguments: tuple[str, ...]  # of `negengine`; paths are relative to the folder in which it runs, or absolute
    earlier: tuple[tuple[str, ...], ...] = ()  # commands whose results it needs

    @property
    def stage(self) -> str:
        return {"merge": "select"}.get(self.name.split()[0], self.name.split()[0])

    @property
    def exports(self) -> bool:
        return self.stage == "export"


def cases(world: Path) -> list[Case]:
    """The matrix: select, score, a probe, merge, export; fp32, mixed, lazy."""
    thread, out = ("--device", "cpu", "--threads", "1"), ("-o", RESULT)
    select = ("select", f"{world}/model", "--lexicon", f"{world}/words", *thread, "--max-verbs", "4")
    fp32, mixed = ("--precision", "fp32"), ("--precision", "mixed")
    score, data = ("score", RESULT, *thread), ("--data", f"{world}", "--dataset", "CPRAG-102")
    shards = [("-o", f"shard{i}", "--shard", f"{i}/3") for i in (1, 2, 3)]
    merge = ("merge", "shard1", "shard2", "shard3", *out)
    return [
        Case("select fp32", (*select, *out, *fp32)),
        Case("select mixed", (*select, *out, *mixed)),
        Case("select lazy", (*select, *out, *fp32, "--lazy")),
        Case("score fp32", (*score, *fp32), ((*select, *out, *fp32),)),
        Case("score mixed", (*score, *mixed), ((*select, *out, *fp32),)),
        Case("diagnostics", ("diagnostics", f"{world}/model", *data, *thread, *out)),
        Case("merge fp32", merge, tuple((*select, *fp32, *shard) for shard in shards)),
        Case("merge mixed", merge, tuple((*select, *mixed, *shard) for shard in shards)),
        Case("export", ("export", f"{world}/checkpoint", *out)),
    ]


NAMES = ["Alba", "Bena", "Doro", "Fiba", "Kana", "Liro", "Moba", "Runa"]
PROFESSIONS = ["dancer", "doctor", "baker"]
VERBS = ["smoke", "dance", "sing", "swim", "walk", "sleep", "hunt", "dig", "laugh", "cook"]
WORDS = (
    "a an who likes like to is isn ' t doesn does not very happy sad she he She He . , | and the The it It was At last "
    "came ran dog cat car tree house man tool insect"
)
DIAGNOSTICS = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n" + "".join(
    f"{i}\tThe {noun} ran.\tAt last it came to the\t{noun}\tcat\tcar\t{'HL'[i % 2]}\n"
    for i, noun in enumerate(["dog", "tree", "house", "man", "tool", "insect"])
)
_HIDDEN = 32


def build_world(folder: Path) -> None:
    """Make all inputs, in this process: it imports PyTorch and opens models, so no process may be forked from it.

    The model is built, not trained. Its one layer attends to all tokens alike, so the mask sees the mean of the word
    vectors, and the tied decoder scores the words that are in the sentence. A bias leaves only the verbs in question.
    So a verb is mostly repeated, with the noise of random vectors: about as much as a real model does.
    """
    half = len(NAMES) // 2
    lists = {"names_female": NAMES[:half], "names_male": NAMES[half:], "verbs": VERBS}
    (folder / "words").mkdir(parents=True)
    for name, words in {**lists, "professions": [f"a {word}" for word in PROFESSIONS]}.items():
        (folder / "words" / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    (folder / "CPRAG-102.tsv").write_text(DIAGNOSTICS, "utf-8")
    import torch
    from negengine.export.build import build
    from tiny_checkpoints import word_tokenizer
    from transformers import BertConfig, BertForMaskedLM

    tokenizer = word_tokenizer(dict.fromkeys([*WORDS.split(), *VERBS, *NAMES, *PROFESSIONS]))
    ids = tokenizer.get_vocab()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(ids), hidden_size=_HIDDEN, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        embeddings = model.bert.embeddings
        embeddings.word_embeddings.weight.normal_(0, 1)
        embeddings.word_embeddings.weight[ids["[MASK]"]] = 0
        embeddings.position_embeddings.weight.normal_(0, 0.05)
        embeddings.token_type_embeddings.weight.zero_()
        attention = model.bert.encoder.layer[0].attention
        attention.self.query.weight.zero_()
        attention.self.value.weight.copy_(torch.eye(_HIDDEN))
        attention.output.dense.weight.copy_(4 * torch.eye(_HIDDEN))
        transform = model.cls.predictions.transform.dense
        transform.weight.copy_(torch.eye(_HIDDEN))
        transform.bias.fill_(2)  # where gelu is nearly linear
        model.cls.predictions.bias.fill_(-20)
        for verb in VERBS:
            model.cls.predictions.bias[ids[verb]] = 0.1 * float(torch.randn(()))
    for part in (model, tokenizer):
        part.save_pretrained(folder / "checkpoint")
    build(str(folder / "checkpoint"), folder / "model")


@dataclass(frozen=True)
class Prepared:
    """A case, ready to be run again and again."""

    case: Case
    folder: Path  # copies of the folder: `start` before the command, `half` when it was killed, `whole` after it
    expected: Files = field(repr=False)  # the files of the result
    outputs: frozenset[str] = field(repr=False)  # what it printed; also run once more, when everything was finished
    seconds: float  # how long the undisturbed command took

    def leave(self, state: str, work: Path) -> None:
        copy_tree(self.folder / state, work)


def prepare(case: Case, children: Children, folder: Path, work: Path) -> Prepared:
    """Run a case undisturbed. If a second run gave other bytes, every fault would be counted as wrong."""

    def run(arguments: Sequence[str], fault: Fault | None = None) -> Ended:
        end = children.start(arguments, work, fault).wait()
        if end.status != 0 and not (fault and fault.at):
            raise AssertionError(f"{' '.join(arguments)}: status {end.status}\n{end.err}")
        return end

    copy_tree(None, work)
    for arguments in case.earlier:
        run(arguments)
    copy_tree(work, folder / "start")
    first = run(case.arguments)
    children.learn_imports()
    copy_tree(work, folder / "whole")
    expected = files_of(work)
    again = run(case.arguments)
    copy_tree(folder / "start", work)
    begun = time.monotonic()
    run(case.arguments, Fault(ops=CHANGING))
    seconds = time.monotonic() - begun
    calls = children.injector.count()
    copy_tree(folder / "start", work)
    run(case.arguments, Fault(Mode.KILL_AFTER, max(1, round(0.6 * calls)), CHANGING))
    copy_tree(work, folder / "half")
    return Prepared(case, folder, expected, frozenset({first.out, again.out}), seconds)


def copy_tree(source: Path | None, target: Path) -> None:
    """Put a copy of a folder, or an empty one, in the place of another one."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if source is not None:
        shutil.copytree(source, target, dirs_exist_ok=True)


def files_of(work: Path) -> Files:
    """The files of the result; one that is not there has none."""
    folder = work / RESULT
    paths = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        str(name): _comparable(str(name), path.read_bytes())
        for name, path in paths.items()
        if not _NOT_RESULTS & {*name.parts}
    }


def differences(one: Files, other: Files) -> list[str]:
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def _comparable(name: str, content: bytes) -> bytes:
    """What must be the same: of a marker its values, as a missing line end at its end does no harm; of run.json the
    stages without how they were called; of export.json not the source commit, which no process may be there to tell."""
    if name not in {"run.json", "export.json"}:
        return content.strip() if name.endswith(".json") and ("/part-" in name or ".done." in name) else content
    try:
        kept = json.loads(content)
        if name == "run.json":
            names = ("identity", "parts", "shard", "metadata", "calibration")
            kept = {stage: {name: record.get(name) for name in names} for stage, record in kept["stages"].items()}
            for record in kept.values():
                record["metadata"].pop("call", None)
        else:
            kept = {key: value for key, value in kept.items() if key not in {"source", "content_sha256"}}
        return json.dumps(kept, sort_keys=True).encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        return content


def wrong_rows(expected: Files, found: Files) -> int:
    """How many rows of the tables are there less or more often than they must be; a changed row is both. It uses
    Polars, which starts threads."""
    import polars as pl

    def rows(content: bytes) -> Counter[str]:
        try:
            return Counter(map(repr, pl.read_parquet(io.BytesIO(content)).iter_rows()))
        except Exception:  # noqa: BLE001 - whatever Polars raises for a damaged file
            return Counter()

    tables = [name for name in expected if name.endswith(".parquet") and expected[name] != found.get(name)]
    pairs = [(rows(expected[name]), rows(found.get(name, b""))) for name in tables]
    return sum((one - other).total() + (other - one).total() for one, other in pairs)
