"""A recording: what a fixed list of commands prints and writes, as text, for `negengine.bench.equality`.

    stdout/NAME.txt, stdout/NAME.json    what a command prints, without and with `--json`
    runs/RUN/FILE                        the result files of a run folder; a Parquet file becomes FILE.tsv

All runs are in fp32. `run.json` and `parts/` are not recorded: they hold times and digests.
"""

import gzip
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

FP32 = "--precision fp32"
SAMPLE = f"--pairs 12 --lazy {FP32}"
SHORT = f"--patterns short.toml --pairs 2200 --max-verbs 4 --lazy {FP32}"  # several parts in selection and in scoring
COMMANDS = {
    "select": f"select mini --pairs 12 {FP32} -o runs/pronoun",
    "score": f"score runs/pronoun {FP32}",
    "select-lazy": f"select mini {SAMPLE} -o runs/lazy",
    "score-lazy": f"score runs/lazy {FP32}",
    "select-same-name": f"select mini {SAMPLE} --coreference same-name -o runs/same-name",
    "score-same-name": f"score runs/same-name {FP32}",
    "select-same-gender": f"select mini {SAMPLE} --coreference same-gender -o runs/same-gender",
    "score-same-gender": f"score runs/same-gender {FP32}",
    "select-other-gender": f"select mini {SAMPLE} --coreference other-gender -o runs/other-gender",
    "score-other-gender": f"score runs/other-gender {FP32}",
    "select-bare": f"select mini {SAMPLE} --verbs bare -o runs/bare",
    "score-bare": f"score runs/bare {FP32}",
    "select-lexicon": f"select mini --lexicon lexicon --max-verbs 3 --seed 7 {FP32} -o runs/lexicon",
    "score-lexicon": f"score runs/lexicon {FP32}",
    "select-devices": f"select mini {SAMPLE} --device cpu,cpu -o runs/devices",
    "select-shard-1": f"select mini {SHORT} --shard 1/2 -o runs/select-1-of-2",
    "select-shard-2": f"select mini {SHORT} --shard 2/2 -o runs/select-2-of-2",
    "merge-select": "merge runs/select-1-of-2 runs/select-2-of-2 -o runs/merged",
    "score-shard-1": f"score runs/merged --shard 1/2 {FP32} -o runs/score-1-of-2",
    "score-shard-2": f"score runs/merged --shard 2/2 {FP32} -o runs/score-2-of-2",
    "merge-score": "merge runs/score-1-of-2 runs/score-2-of-2 -o runs/merged",
    "compare-patterns": "compare runs/pronoun",
    "compare-coreference": "compare runs/same-name runs/same-gender runs/other-gender",
    "compare-runs": "compare runs/pronoun runs/lazy",
    "gh22": "gh22 mini --pairs 8 --ranks 1,50 -o runs/gh22",
    "gh22-tiny": "gh22 tiny --pairs 8 --ranks 1,50 -o runs/gh22-tiny",
    "gh22-variant": "gh22 mini --pairs 4 --ranks 1 --variant connective --seed 3 -o runs/gh22-variant",
    "compare-gh22": "compare runs/gh22 runs/gh22-tiny",
    "lama": "lama mini --data facts -o runs/lama",
    "lama-tiny": "lama tiny --data facts -o runs/lama-tiny",
    "lama-words": "lama mini --data facts --corpus TREx --vocabulary words --with-p159 -o runs/lama-words",
    "compare-lama": "compare runs/lama runs/lama-tiny",
    "diagnostics": "diagnostics mini --data data/lm-diagnostics --draws 1 -o runs/diagnostics",
    "diagnostics-tiny": "diagnostics tiny --data data/lm-diagnostics --draws 1 -o runs/diagnostics-tiny",
    "diagnostics-role": "diagnostics mini --data data/lm-diagnostics --dataset ROLE-88 -o runs/diagnostics-role",
    "diagnostics-seed": "diagnostics mini --data data/lm-diagnostics --dataset CPRAG-102 --seed 3 -o runs/cprag",
    "compare-diagnostics": "compare runs/diagnostics runs/diagnostics-tiny",
    "nli": "nli three-way --data data/negation-nli --original RTE=dev.tsv -o runs/nli",
    "nli-two-way": "nli two-way --data data/negation-nli --source RTE --max-length 64 -o runs/nli-two-way",
    "compare-nli": "compare runs/nli runs/nli-two-way",
    "predict": 'predict mini "Anna likes to dance. She is happy to [MASK]." "Paris is not the [MASK] of France." -k 7',
    "cues": "cues cues.txt",
    "data-list": "data list",
}
CHECKPOINTS = {  # random weights: the labels of a classifier, or none for a masked language model
    "tiny": (),
    "three-way": ("entailment", "neutral", "contradiction"),
    "two-way": ("not_entailment", "entailment"),
}
FACTS = {"GoogleRE": 5, "TREx": 25, "ConceptNet": 3, "SQuAD": 1}  # every n-th fact of a corpus
PATTERNS = """name = "short"
[[pattern]]
name = "P"
role = "selecting"
context = "{NAME}, {PROF}, likes to {ACT}."
target = "{PRON} likes to {MASK}."
[[pattern]]
name = "N"
role = "forbidden"
context = "{NAME}, {PROF}, doesn't {ACT}."
target = "{PRON} likes to {MASK}."
"""
FILES = {
    "short.toml": PATTERNS,
    "lexicon/names_female.txt": "Anna\nMaria\nJessica\n",
    "lexicon/names_male.txt": "John\nPeter\n",
    "lexicon/professions.txt": "a dancer\nan architect\na teacher\nan engineer\n",
    "lexicon/verbs.txt": "dance\nsing\nsleep\nsmoke\nswim\ntalk\nwalk\nwork\n",
    "cues.txt": "No one came. She didn't know why, and he was unhappy.\nIt rained.\nNever again without a coat!\n",
}
FAILED = "exit status "


def record(output: Path, work: Path, negengine: Path, say: Callable[[str], None]) -> int:
    """Run all commands and keep what they print and write.

    Args:
        output: The folder of the recording; new.
        work: A folder that `prepare` has filled.
        negengine: The program.
        say: Told which command has run, and its seconds.

    Returns:
        How many commands have failed.
    """
    (output / "stdout").mkdir(parents=True)
    failed = 0
    for name, arguments in COMMANDS.items():
        begin = time.perf_counter()
        for options, suffix in (((), "txt"), (("--json",), "json")):
            text = run(negengine, [*shlex.split(arguments), *options], work)
            failed += text.startswith(FAILED)
            (output / "stdout" / f"{name}.{suffix}").write_text(text, "utf-8")
        say(f"{time.perf_counter() - begin:6.1f} s  {arguments}")
    keep_results(work / "runs", output / "runs")
    return failed


def run(negengine: Path, arguments: list[str], work: Path) -> str:
    """What a command prints on stdout; if it fails, its status and the last line of stderr."""
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1", "NEGENGINE_DATA": "cache", "HF_HUB_OFFLINE": "1"}
    command = [str(negengine), *arguments]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, encoding="utf-8", check=False)
    text = done.stdout
    if done.returncode:
        text = f"{FAILED}{done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}\n"
    return text.replace(str(work), "SCRATCH")


def prepare(work: Path, negengine: Path, data: Path, models: Path | None) -> None:
    """Fill the scratch folder with exported models, data sets, word lists and texts.

    Args:
        work: The scratch folder; empty.
        negengine: The program that exports.
        data: A folder with `negated-lama`, `lm-diagnostics` and `negation-nli`.
        models: Where exported models are kept; those that are there are not exported again.

    Raises:
        RuntimeError: An export fails.
    """
    for name, content in FILES.items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(content, "utf-8")
    (work / "data").symlink_to(data)
    rows = [
        row.split("\t", 1)[1] for row in (data / "negation-nli" / "RTE.txt").read_text("cp1252").splitlines()[1:121]
    ]
    rows[::2] = [row.replace(" not ", " ") for row in rows[::2]]
    (work / "dev.tsv").write_text("\n".join(["sentence1\tsentence2\tlabel", *rows]) + "\n", "utf-8")
    (work / "facts").mkdir()
    for corpus, step in FACTS.items():
        with gzip.open(data / "negated-lama" / f"{corpus}.jsonl.gz", "rt", encoding="utf-8") as lines:
            (work / "facts" / f"{corpus}.jsonl").write_text("".join(list(lines)[::step]), "utf-8")
    if models is not None:
        models.mkdir(parents=True, exist_ok=True)
        (work / "models").symlink_to(models)
    if not (work / "models" / "mini").is_dir():
        export(work, negengine, "mini", "mini", "fill-mask")
    for name, labels in CHECKPOINTS.items():
        if not (work / "models" / name).is_dir():
            save_checkpoint(work / "checkpoints" / name, work / "models" / "mini", labels)
            export(work, negengine, f"checkpoints/{name}", name, "text-classification" if labels else "fill-mask")


def export(work: Path, negengine: Path, model: str, name: str, task: str) -> None:
    """Export a model to `models/NAME` in the scratch folder."""
    text = run(negengine, ["export", model, "--task", task, "-o", f"models/{name}"], work)
    if text.startswith(FAILED):
        raise RuntimeError(f"export {model}: {text}")


def save_checkpoint(folder: Path, tokenizer: Path, labels: tuple[str, ...]) -> None:
    """Save a small BERT with random weights, the same at every call, and the tokenizer of an exported model."""
    import torch  # noqa: PLC0415  `compare` does without
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForSequenceClassification  # noqa: PLC0415

    words = AutoTokenizer.from_pretrained(tokenizer)
    words.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=256,
        initializer_range=0.3,
    )
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
    torch.manual_seed(len(labels))
    (BertForSequenceClassification if labels else BertForMaskedLM)(config).save_pretrained(folder)


def keep_results(runs: Path, output: Path) -> None:
    """Copy the result files of all runs, Parquet files as text."""
    for file in sorted(runs.glob("*/*")):
        target = output / file.relative_to(runs)
        if file.suffix == ".parquet":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f"{file.name}.tsv").write_text(table_text(pl.read_parquet(file)), "utf-8")
        elif file.name == "selection.json":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())


def table_text(frame: pl.DataFrame) -> str:
    """A frame as tab-separated JSON values with all their digits, under a header of `name:type`."""
    header = "\t".join(f"{name}:{kind}" for name, kind in frame.schema.items())
    rows = ("\t".join(json.dumps(value, ensure_ascii=False) for value in row) for row in frame.iter_rows())
    return "\n".join([header, *rows]) + "\n"
