"""Do two versions of the program give the same results? Record what both print and write, then compare the recordings.

    python -m negengine.bench.equality record before --data DATA --negengine OLD/.venv/bin/negengine
    python -m negengine.bench.equality record after --data DATA
    python -m negengine.bench.equality compare before after

equality.toml has the models, the files and the commands. A recording takes about seven minutes on two cores, and two
minutes more for the exports unless `--models` keeps them. `run.json` and `parts/` are not recorded: they hold times and
digests. Record both versions on one machine: another processor may round the last digit differently.
"""

import difflib
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import polars as pl

PROGRAM = Path(sys.executable).with_name("negengine")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?")
_SHOWN, _WIDTH = 12, 200  # most lines of a difference, most characters of a line
_FAILED = "exit status "
_OF_THE_DAY = (  # times, and what follows from them
    r"[\d.e-]+(?= CPU core hours)",
    r"[\d.,]+(?= (?:seconds|minutes|hours) (?:on|together)\b)",
    r"\d[\d,]*(?= sentences(?: \(|, )\d[\d,]* tokens)",
    r"\d[\d,]*(?= tokens)",
    r"(?<=commit )[0-9a-f]{12,40}\b",
    r"(?m)(?<=^started\n).+|(?<=^seconds\n).+|(?<=^source\n).+",
    r"(?m)(?<=^sentences\n).+|(?<=^tokens\n).+",
)
_FOLDER = click.Path(exists=True, path_type=Path)


@click.group()
def app() -> None:
    """Two recordings of what commands print and write."""


@app.command()
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--data", type=_FOLDER, required=True, help="With negated-lama, lm-diagnostics and negation-nli.")
@click.option("--negengine", type=_FOLDER, default=PROGRAM, help="The program.")
@click.option("--models", type=click.Path(path_type=Path), help="Exported models are kept here, and used again.")
def record(output: Path, data: Path, negengine: Path, models: Path | None) -> None:
    """Run the commands in a scratch folder and keep what they print and write."""
    if output.exists():
        raise click.BadParameter(f"{output} exists; give a new folder")
    known = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    failed = 0
    with TemporaryDirectory() as scratch:
        work, program = Path(scratch).resolve(), negengine.absolute()
        _prepare(known, work, program, data.resolve(), models.resolve() if models else None)
        (output / "stdout").mkdir(parents=True)
        (work / "written").mkdir()
        for name, arguments in known["commands"].items():
            begin = time.perf_counter()
            forms = {"txt": (), "json": ("--format", "json") if name.startswith("cite") else ("--json",)}
            if name.startswith(("report", "figures")):
                del forms["json"]
            elif name.startswith("verify"):  # one form, as it takes long
                del forms["txt"]
            for form, options in forms.items():
                text = _run(program, [*shlex.split(arguments), *options], work)
                failed += text.startswith(_FAILED)
                (output / "stdout" / f"{name}.{form}").write_text(text, "utf-8")
            click.echo(f"{time.perf_counter() - begin:6.1f} s  {arguments}")
        keep_results(work / "runs", output / "runs")
        keep_written(work / "written", output / "written")
    click.echo(f"{output}: {len(known['commands'])} commands, {failed} failures")
    raise click.exceptions.Exit(failed > 0)


@app.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Compare two recordings file by file; the exit status is 1 if a file differs."""
    one, other = (
        {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.*")}
        for folder in (before, after)
    )
    for folder, texts in ((before, one), (after, other)):
        if not texts:
            raise click.BadParameter(f"{folder} holds no files; give the folder of a recording")
    different = 0
    for name in sorted(one | other):
        details: list[str] = []
        if name not in one or name not in other:
            details = [f"only in the recording {'before' if name in one else 'after'}"]
        elif one[name] != other[name]:
            details = list(_differences(one[name], other[name]))
        different += bool(details)
        click.echo("\n    ".join([f"{name}: {'different' if details else 'equal'}", *details]))
    n = len(one | other)
    click.echo(f"{n} files, {n - different} equal, {different} different")
    raise click.exceptions.Exit(different > 0)


def _differences(before: str, after: str) -> Iterator[str]:
    """How two texts differ: their numbers, the columns if they are tables, the first lines that are not equal."""
    one, other = ([float(number.replace(",", "")) for number in _NUMBER.findall(text)] for text in (before, after))
    if len(one) != len(other):
        yield f"{len(one):,} numbers before, {len(other):,} after"
    elif unequal := [abs(a - b) for a, b in zip(one, other, strict=True) if a != b]:
        yield f"{len(unequal):,} of {len(one):,} numbers differ, by at most {max(unequal):.3g}"
    else:
        yield f"all {len(one):,} numbers are equal; words or layout differ"
    old, new = before.splitlines(), after.splitlines()
    columns = [lines[0].split("\t") if lines and "\t" in lines[0] else [] for lines in (old, new)]
    if columns[0] != columns[1]:
        yield from (f"column {name} is gone" for name in columns[0] if name not in columns[1])
        yield from (f"column {name} is new" for name in columns[1] if name not in columns[0])
    elif columns[0]:
        rows = [(a.split("\t"), b.split("\t")) for a, b in zip(old, new, strict=False)]
        for i, name in enumerate(columns[0]):
            if count := sum(a[i] != b[i] for a, b in rows):
                yield f"column {name}: {count:,} of {len(rows) - 1:,} rows differ"
    start = next(i for i, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    window = slice(start, start + _SHOWN)
    yield f"from line {start + 1}:"
    for line in list(difflib.unified_diff(old[window], new[window], lineterm="", n=0))[2:][:_SHOWN]:
        if not line.startswith("@@"):
            yield line[:_WIDTH]


def _run(negengine: Path, arguments: Sequence[str], work: Path) -> str:
    """What a command prints on stdout; if it fails, its status and the last line of stderr."""
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1", "NEGENGINE_DATA": "cache", "HF_HUB_OFFLINE": "1"}
    command = [str(negengine), *arguments]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, encoding="utf-8", check=False)
    text = done.stdout
    if done.returncode:
        text = f"{_FAILED}{done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}\n"
    return _without_times(text.replace(str(work), "SCRATCH"))


def _without_times(text: str) -> str:
    """A text without what is another one on every day: seconds, the amount that was calibrated, the commit."""
    for pattern in _OF_THE_DAY:
        text = re.sub(pattern, "…", text)
    return text


def _prepare(known: dict[str, Any], work: Path, negengine: Path, data: Path, models: Path | None) -> None:
    """Fill the scratch folder with models, data sets, word lists and texts. Raises RuntimeError if an export fails."""
    for name, content in known["files"].items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(content, "utf-8")
    (work / "data").symlink_to(data)
    rows = [
        row.split("\t", 1)[1] for row in (data / "negation-nli" / "RTE.txt").read_text("cp1252").splitlines()[1:121]
    ]
    rows[::2] = [row.replace(" not ", " ") for row in rows[::2]]
    (work / "dev.tsv").write_text("\n".join(["sentence1\tsentence2\tlabel", *rows]) + "\n", "utf-8")
    (work / "facts").mkdir()
    for corpus, step in known["facts"].items():
        with gzip.open(data / "negated-lama" / f"{corpus}.jsonl.gz", "rt", encoding="utf-8") as lines:
            (work / "facts" / f"{corpus}.jsonl").write_text("".join(list(lines)[::step]), "utf-8")
    if models is not None:
        models.mkdir(parents=True, exist_ok=True)
        (work / "models").symlink_to(models)
    for name, own in {"mini": {"task": "fill-mask"}, **known["models"]}.items():
        if (work / "models" / name).is_dir():
            continue
        checkpoint = "mini"
        if name != "mini":
            checkpoint = f"checkpoints/{name}"
            _save_checkpoint(
                work / checkpoint, work / "models" / "mini", verbs=known["files"]["lexicon/verbs.txt"], **own
            )
        text = _run(negengine, ["export", checkpoint, "--task", own["task"], "-o", f"models/{name}"], work)
        if text.startswith(_FAILED):
            raise RuntimeError(f"export {name}: {text}")


def _save_checkpoint(folder: Path, tokenizer: Path, verbs: list[str], *, task: str, labels: list[str]) -> None:
    """Save a small BERT or GPT-2 with random weights, the same at every call.

    BERT has the tokenizer of an exported model. GPT-2 likes verbs most, so that it repeats some of them.
    """
    import torch  # noqa: PLC0415  `compare` does without
    import transformers as hf  # noqa: PLC0415
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    torch.manual_seed(len(labels))
    if task != "text-generation":
        words = hf.AutoTokenizer.from_pretrained(tokenizer)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
        given = {"vocab_size": len(words), "max_position_embeddings": 256, "initializer_range": 0.3}
        config = hf.BertConfig(**sizes, **given)
        if labels:
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: number for number, label in enumerate(labels)}
        heads = {
            "fill-mask": hf.BertForMaskedLM,
            "text-classification": hf.BertForSequenceClassification,
            "token-classification": hf.BertForTokenClassification,
        }
        model = heads[task](config)
    else:
        learned = Tokenizer(models.BPE())
        learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        learned.decoder = decoders.ByteLevel()
        alphabet, special = pre_tokenizers.ByteLevel.alphabet(), "<|endoftext|>"
        trainer = trainers.BpeTrainer(
            vocab_size=400, initial_alphabet=alphabet, special_tokens=[special], show_progress=False
        )
        names = ["Anna", "Maria", "Jessica", "John", "Peter"]
        texts = [f"{name} likes to {verb}. She is happy to {verb}. He isn't." for name in names for verb in verbs]
        learned.train_from_iterator(texts, trainer)
        words = hf.PreTrainedTokenizerFast(tokenizer_object=learned, bos_token=special)
        sizes = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 128}
        model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=len(words), **sizes, initializer_range=0.3))
        with torch.no_grad():
            liked = model.transformer.wte.weight[[words(f" {verb}")["input_ids"][0] for verb in verbs]]
            model.transformer.ln_f.bias.copy_(2 * liked.sum(0) / liked.sum(0).norm())
    words.save_pretrained(folder)
    model.save_pretrained(folder)


def keep_results(runs: Path, output: Path) -> None:
    """Copy the result files of all runs, Parquet files as text."""
    for file in sorted([*runs.glob("*/*"), *runs.glob("suite/*/*/*")]):
        target = output / file.relative_to(runs)
        if file.suffix == ".parquet":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f"{file.name}.tsv").write_text(_table_text(file), "utf-8")
        elif file.name == "selection.json":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())


def keep_written(written: Path, output: Path) -> None:
    """Copy the files that `-o` and `--items` name: of pages what they say, charts included, not styles and scripts."""
    for file in sorted(path for path in written.rglob("*") if path.suffix in {".csv", ".tsv", ".jsonl", ".html"}):
        target = output / file.relative_to(written)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text("utf-8")
        if file.suffix == ".html":
            body = re.sub(r"(?s)<(style|script)\b.*?</\1>", "", text)
            pieces = (" ".join(piece.split()) for piece in re.split(r"<[^>]*>", body))
            text = _without_times("".join(f"{piece}\n" for piece in pieces if piece))
        target.write_text(text, "utf-8")
    for file in sorted(written.rglob("*.parquet")):
        (output / f"{file.name}.tsv").write_text(_table_text(file), "utf-8")


def _table_text(file: Path) -> str:
    """A Parquet file as tab-separated JSON values with all their digits, under a header of `name:type`."""
    frame = pl.read_parquet(file)
    header = "\t".join(f"{name}:{kind}" for name, kind in frame.schema.items())
    rows = ("\t".join(json.dumps(value, ensure_ascii=False) for value in row) for row in frame.iter_rows())
    return "\n".join([header, *rows]) + "\n"


if __name__ == "__main__":
    app()
