"""A recording: what a fixed list of commands prints and writes, as text, for `negengine.bench.equality`.

`run.json` and `parts/` are not recorded: they hold times and digests.
"""

import gzip
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

FP32 = "--precision fp32"
SAMPLE = f"--pairs 12 --lazy {FP32}"
MIXED = "--precision mixed"
WORDS = f"--lexicon long --verbs whole-words --max-verbs 4 {FP32}"
KINDS = ("pronoun", "gh22", "lama", "diagnostics", "nli", "cues", "probe", "sentences", "pairs")  # a run of each
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
    "predict-causal": 'predict gpt2 "She is happy to [MASK]." -k 7',
    "cues": "cues cues.txt",
    "cues-detector": f"cues cues.txt more.txt --detector detector {FP32} -o runs/cues",
    "data-list": "data list",
    "select-words": f"select mini {WORDS} -o runs/words",
    "score-words": f"score runs/words {FP32}",
    "select-words-shard-1": f"select mini {WORDS} --shard 1/2 -o runs/words-1-of-2",
    "select-words-shard-2": f"select mini {WORDS} --shard 2/2 -o runs/words-2-of-2",
    "merge-words": "merge runs/words-1-of-2 runs/words-2-of-2 -o runs/words-merged",
    "select-mixed": f"select mini --lexicon lexicon {MIXED} -o runs/mixed",
    "score-mixed": f"score runs/mixed {MIXED}",
    "select-words-mixed": f"select mini --lexicon long --verbs whole-words {MIXED} -o runs/words-mixed",
    "score-words-mixed": f"score runs/words-mixed {MIXED}",
    "gh22-mixed": f"gh22 mini --pairs 8 --ranks 1,50 {MIXED} -o runs/gh22-mixed",
    "nli-mixed": f"nli three-way --data data/negation-nli --source RTE {MIXED} -o runs/nli-mixed",
    "select-causal": f"select gpt2 --lexicon long {FP32} -o runs/causal",
    "score-causal": f"score runs/causal {FP32}",
    "select-causal-words": f"select gpt2 --lexicon long --verbs whole-words {FP32} -o runs/causal-words",
    "score-causal-words": f"score runs/causal-words {FP32}",
    "probe": f"probe mini stimuli.csv --top 3 {FP32} -o runs/probe",
    "probe-all-masks": f"probe mini stimuli.csv --method all-masks {FP32} -o runs/probe-all-masks",
    "probe-whole-word": f"probe mini stimuli.csv --method whole-word {FP32} -o runs/probe-words",
    "probe-targets": f"probe mini verbs.tsv --target right --target wrong --group kind {FP32} -o runs/probe-targets",
    "probe-free": f"probe mini free.jsonl --sentence text --top 5 --targets words {FP32} -o runs/probe-free",
    "probe-causal": f"probe gpt2 stimuli.csv {FP32} -o runs/probe-causal",
    "compare-probes": "compare runs/probe runs/probe-causal",
    "likelihood": f"likelihood mini sentences.csv --per-word --per-token {FP32} -o runs/sentences",
    "likelihood-within-word": f"likelihood mini sentences.csv --method within-word-l2r {FP32} -o runs/within-word",
    "likelihood-pairs": f"likelihood mini pairs.csv {FP32} -o runs/pairs",
    "likelihood-rows": f"likelihood mini judged.csv --pair pair --acceptable good {FP32} -o runs/rows",
    "likelihood-causal": f"likelihood gpt2 pairs.csv {FP32} -o runs/pairs-causal",
    "likelihood-tiny": f"likelihood tiny pairs.csv {FP32} -o runs/pairs-tiny",
    "compare-pairs": "compare runs/pairs runs/pairs-tiny",
    "show": "show runs/pronoun --pattern CpTn --failed --sample 5",
    "show-all": "show runs/lexicon -o written/shown.csv",
    "show-words": "show runs/words --sample 8 --seed 2",
    "show-gh22": "show runs/gh22 --sample 5",
    "show-lama": "show runs/lama --where relation=P19 --sample 5",
    "show-diagnostics": "show runs/diagnostics --condition original --sample 5",
    "show-nli": "show runs/nli --failed --sample 5",
    "show-cues": "show runs/cues --sample 5",
    "show-probe": "show runs/probe -o written/probe.jsonl",
    "show-pairs": "show runs/pairs --failed",
    "compare-items": "compare runs/pronoun runs/lazy --items written/pronoun.csv",
    "compare-items-gh22": "compare runs/gh22 runs/gh22-tiny --items written/gh22.csv",
    "compare-items-lama": "compare runs/lama runs/lama-tiny --items written/lama.tsv",
    "compare-items-diagnostics": "compare runs/diagnostics runs/diagnostics-tiny --items written/diagnostics.jsonl",
    "compare-items-nli": "compare runs/nli runs/nli-two-way --items written/nli.parquet",
    "compare-by-gender": "compare runs/pronoun runs/lazy --by gender",
    "compare-by-verb": "compare runs/lexicon --by verb",
    "compare-by-relation": "compare runs/lama runs/lama-tiny --by relation",
    "compare-by-condition": "compare runs/diagnostics runs/diagnostics-tiny --by condition",
    "compare-words": "compare runs/words",
    **{f"cite-{run}": f"cite runs/{run}" for run in (*KINDS, "words")},
    **{f"verify-{run}": f"verify runs/{run} --sample 20 --seed 0" for run in (*KINDS, "words", "causal", "mixed")},
    "verify-model": "verify models/mini --sample 20 --seed 0",
    **{f"report-{run}": f"report runs/{run} -o written/{run}.html" for run in (*KINDS, "words", "causal")},
    "report-two": "report runs/pronoun runs/lazy -o written/two.html",
    "report-two-lama": "report runs/lama runs/lama-tiny -o written/two-lama.html",
    "figures": "figures runs/pronoun -o written/figures",
    "patterns": "patterns check italian",
    "patterns-model": "patterns check short.toml --model mini --sentences 3",
    "suite": "suite suite.toml",
    "reproduce": "reproduce runs/lexicon -o runs/lexicon-again",
    "wrong-model": "select nothing",
    "wrong-pattern": "show runs/pronoun --pattern CpTx",
    "wrong-stimuli": "probe mini pairs.csv",
    "wrong-pairs": "likelihood mini verbs.tsv",
    "wrong-suite": "suite short.toml",
    "wrong-kinds": "compare runs/pronoun runs/lama",
}
CHECKPOINTS = {  # random weights: the labels of a classifier, or none for a masked language model
    "tiny": (),
    "three-way": ("entailment", "neutral", "contradiction"),
    "two-way": ("not_entailment", "entailment"),
    "detector": ("O", "SINGLE", "PREFIX", "SUFFIX", "MULTI-B", "MULTI-I"),
    "gpt2": (),
}
TASKS = {
    "three-way": "text-classification",
    "two-way": "text-classification",
    "detector": "token-classification",
    "gpt2": "text-generation",
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
SUITE = """name = "two models"
[run]
precision = "fp32"
[[model]]
model = "mini"
[[model]]
model = "tiny"
[[probe]]
probe = "score"
pairs = 6
lazy = true
vary = {coreference = ["pronoun", "same-name"]}
[[probe]]
probe = "gh22"
pairs = 4
ranks = [1]
"""
LONG = "dance beware sing rustle sleep abdicate smoke oversleep swim hesitate talk improvise walk work"
FILES = {
    "short.toml": PATTERNS,
    "lexicon/names_female.txt": "Anna\nMaria\nJessica\n",
    "lexicon/names_male.txt": "John\nPeter\n",
    "lexicon/professions.txt": "a dancer\nan architect\na teacher\nan engineer\n",
    "lexicon/verbs.txt": "dance\nsing\nsleep\nsmoke\nswim\ntalk\nwalk\nwork\n",
    "long/names_female.txt": "Anna\nMaria\nJessica\n",
    "long/names_male.txt": "John\nPeter\n",
    "long/professions.txt": "a dancer\nan architect\na teacher\nan engineer\n",
    "long/verbs.txt": "\n".join(LONG.split()) + "\n",
    "stimuli.csv": "item,group,cluster,sentence,target\n"
    + "".join(
        f"{item},{group},{item % 5},{sentence},{verb}\n"
        for item, verb in enumerate(LONG.split())
        for group, sentence in (
            ("plain", f"Anna likes to {verb}. She is happy to [MASK]."),
            ("negated", f"Anna doesn't like to {verb}. She isn't happy to [MASK]."),
        )
    ),
    "verbs.tsv": "sentence\tright\twrong\tkind\n"
    + "".join(
        f"{name} {modal} [MASK].\t{verb}\t{verb}s\t{kind}\n"
        for name in ("Anna", "Peter")
        for modal, kind in (("likes to", "verb"), ("can", "modal"), ("cannot", "modal"))
        for verb in ("dance", "sing", "abdicate", "walk")
    ),
    "free.jsonl": "".join(
        json.dumps({"text": text, "target": target}) + "\n"
        for text, target in (("Paris is the [MASK] of France.", "heart"), ("She [MASK]; he didn't.", "danced"))
    ),
    "sentences.csv": "sentence,group\n"
    + "".join(
        f"{name} {likes} to {verb}.,{group}\n"
        for name in ("Anna", "Peter")
        for likes, group in (("likes", "plain"), ("does not like", "negated"))
        for verb in LONG.split()[::2]
    ),
    "pairs.csv": "sentence_good,sentence_bad,group,cluster\n"
    + "".join(
        f"{name} likes to {verb}.,{name} like to {verb}.,agreement,{name}\n"
        f"{name} can {verb}.,{name} can {verb}s.,form,{name}\n"
        for name in ("Anna", "Maria", "Peter")
        for verb in LONG.split()[::3]
    ),
    "judged.csv": "sentence,pair,good\n"
    + "".join(
        f"{name} likes to {verb}.,{name} {verb},1\n{name} like to {verb}.,{name} {verb},0\n"
        for name in ("Anna", "Maria")
        for verb in LONG.split()[::4]
    ),
    "more.txt": "She is not unhappy.\nNobody came, neither he nor she.\n\nThey danced without a care until noon.\n",
    "suite.toml": SUITE,
    "cues.txt": "No one came. She didn't know why, and he was unhappy.\nIt rained.\nNever again without a coat!\n",
}
FAILED = "exit status "
_OF_THE_DAY = (  # times, and what follows from them
    re.compile(r"[\d.e-]+(?= CPU core hours)"),
    re.compile(r"[\d.,]+(?= (?:seconds|minutes|hours) (?:on|together)\b)"),
    re.compile(r"\d[\d,]*(?= sentences(?: \(|, )\d[\d,]* tokens)"),
    re.compile(r"\d[\d,]*(?= tokens)"),
    re.compile(r"(?<=commit )[0-9a-f]{12,40}\b"),
    re.compile(r"(?<=^started\n).+|(?<=^seconds\n).+|(?<=^source\n).+", re.MULTILINE),
    re.compile(r"(?<=^sentences\n).+|(?<=^tokens\n).+", re.MULTILINE),
)


def record(output: Path, work: Path, negengine: Path, say: Callable[[str], None]) -> int:
    """Run all commands, keep what they print and write, and count those that fail."""
    (output / "stdout").mkdir(parents=True)
    (work / "written").mkdir()
    failed = 0
    for name, arguments in COMMANDS.items():
        begin = time.perf_counter()
        for suffix, options in ways(name).items():
            text = run(negengine, [*shlex.split(arguments), *options], work)
            failed += text.startswith(FAILED)
            (output / "stdout" / f"{name}.{suffix}").write_text(text, "utf-8")
        say(f"{time.perf_counter() - begin:6.1f} s  {arguments}")
    keep_results(work / "runs", output / "runs")
    keep_written(work / "written", output / "written")
    return failed


def ways(name: str) -> dict[str, tuple[str, ...]]:
    """The options of a command for each form in which what it prints is kept; one form if a second one takes long."""
    as_json = ("--format", "json") if name.startswith("cite") else ("--json",)
    if name.startswith(("report", "figures")):
        return {"txt": ()}
    return {"json": as_json} if name.startswith("verify") else {"txt": (), "json": as_json}


def run(negengine: Path, arguments: list[str], work: Path) -> str:
    """What a command prints on stdout; if it fails, its status and the last line of stderr."""
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1", "NEGENGINE_DATA": "cache", "HF_HUB_OFFLINE": "1"}
    command = [str(negengine), *arguments]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, encoding="utf-8", check=False)
    text = done.stdout
    if done.returncode:
        text = f"{FAILED}{done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}\n"
    return without_times(text.replace(str(work), "SCRATCH"))


def without_times(text: str) -> str:
    """A text without what is another one on every day: seconds, the amount that was calibrated, the commit."""
    for pattern in _OF_THE_DAY:
        text = pattern.sub("…", text)
    return text


def prepare(work: Path, negengine: Path, data: Path, models: Path | None) -> None:
    """Fill the scratch folder with models, data sets, word lists and texts. Raises RuntimeError if an export fails."""
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
            export(work, negengine, f"checkpoints/{name}", name, TASKS.get(name, "fill-mask"))


def export(work: Path, negengine: Path, model: str, name: str, task: str) -> None:
    """Export a model to `models/NAME` in the scratch folder."""
    text = run(negengine, ["export", model, "--task", task, "-o", f"models/{name}"], work)
    if text.startswith(FAILED):
        raise RuntimeError(f"export {model}: {text}")


def save_checkpoint(folder: Path, tokenizer: Path, labels: tuple[str, ...]) -> None:
    """Save a small BERT with random weights, the same at every call, and the tokenizer of an exported model."""
    import torch  # noqa: PLC0415  `compare` does without
    import transformers as hf  # noqa: PLC0415

    torch.manual_seed(len(labels))
    if folder.name == "gpt2":
        save_causal(folder)
        return
    words = hf.AutoTokenizer.from_pretrained(tokenizer)
    words.save_pretrained(folder)
    config = hf.BertConfig(
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
    heads = {
        "fill-mask": hf.BertForMaskedLM,
        "text-classification": hf.BertForSequenceClassification,
        "token-classification": hf.BertForTokenClassification,
    }
    heads[TASKS.get(folder.name, "fill-mask")](config).save_pretrained(folder)


def save_causal(folder: Path) -> None:
    """Save a small GPT-2 with random weights that likes verbs most, so that it repeats some of them."""
    import torch  # noqa: PLC0415
    import transformers as hf  # noqa: PLC0415
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    verbs = FILES["lexicon/verbs.txt"].split()
    names = ["Anna", "Maria", "Jessica", "John", "Peter"]
    texts = [f"{name} likes to {verb}. She is happy to {verb}. He isn't." for name in names for verb in verbs]
    tokenizer.train_from_iterator(texts, trainer)
    words = hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>")  # noqa: S106
    words.save_pretrained(folder)
    model = hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=len(words), n_embd=48, n_layer=2, n_head=4, n_positions=128, initializer_range=0.3)
    )
    with torch.no_grad():
        liked = model.transformer.wte.weight[[words(f" {verb}")["input_ids"][0] for verb in verbs]]
        model.transformer.ln_f.bias.copy_(2 * liked.sum(0) / liked.sum(0).norm())
    model.save_pretrained(folder)


def keep_results(runs: Path, output: Path) -> None:
    """Copy the result files of all runs, Parquet files as text."""
    for file in sorted([*runs.glob("*/*"), *runs.glob("suite/*/*/*")]):
        target = output / file.relative_to(runs)
        if file.suffix == ".parquet":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f"{file.name}.tsv").write_text(table_text(pl.read_parquet(file)), "utf-8")
        elif file.name == "selection.json":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())


def keep_written(written: Path, output: Path) -> None:
    """Copy the files that `-o` and `--items` name: of pages their text, of figures their values."""
    for file in sorted(path for path in written.rglob("*") if path.suffix in {".csv", ".tsv", ".jsonl", ".html"}):
        target = output / file.relative_to(written)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text("utf-8")
        target.write_text(without_times(page_text(text)) if file.suffix == ".html" else text, "utf-8")
    for file in sorted(written.rglob("*.parquet")):
        (output / f"{file.name}.tsv").write_text(table_text(pl.read_parquet(file)), "utf-8")


def page_text(page: str) -> str:
    """What an HTML page says, a line for each piece of text, charts included; not its styles and scripts."""
    body = re.sub(r"(?s)<(style|script)\b.*?</\1>", "", page)
    pieces = (" ".join(piece.split()) for piece in re.split(r"<[^>]*>", body))
    return "".join(f"{piece}\n" for piece in pieces if piece)


def table_text(frame: pl.DataFrame) -> str:
    """A frame as tab-separated JSON values with all their digits, under a header of `name:type`."""
    header = "\t".join(f"{name}:{kind}" for name, kind in frame.schema.items())
    rows = ("\t".join(json.dumps(value, ensure_ascii=False) for value in row) for row in frame.iter_rows())
    return "\n".join([header, *rows]) + "\n"
