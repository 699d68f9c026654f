"""A probe of another package: found by its entry point, it is run, sharded, merged and compared like a bundled one."""

import json
import os
import subprocess
import sys

import polars as pl
import pytest

# All that the other package consists of: the registry's entry, a stage, its results, a library function and a command.
PACKAGE = {
    "capitals/__init__.py": """
from negengine.engine.library.registry import Probe

PROBE = Probe(
    name="capitals",
    stages=("capitals.stage:Capitals",),
    runs={"capitals": "capitals.runs:CapitalsRun"},
    functions={"capitals": "capitals.runs:capitals"},
    commands=("capitals.commands:capitals",),
)
""",
    "capitals/stage.py": """
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
from negengine.engine.inference.exported import ExportedModel
from negengine.engine.inference.free_text import encode_texts
from negengine.engine.probes.items import ITEMS_FILE, SUMMARY_FILE, model_identity
from negengine.engine.probes.summary import frame, means
from negengine.engine.runs.masked_stages import ReferenceStage
from negengine.engine.runs.stage import PartResult
from negengine.engine.sentences.tokenizer import MaskTokenizer

CAPITALS = {"France": "paris", "Italy": "rome", "England": "london", "Germany": "berlin"}


@dataclass(frozen=True, eq=False)
class Capitals(ReferenceStage):
    name: ClassVar[str] = "capitals"
    exported: ExportedModel
    adverb: str

    @property
    def identity(self):
        return {**model_identity(self.exported), "adverb": self.adverb}

    @property
    def sizes(self):
        return [1] * len(CAPITALS)

    def decide(self, model, number, prepared, advance):
        land, city = list(CAPITALS.items())[number]
        tokenizer = MaskTokenizer.load(self.exported.folder, self.exported.mask_token)
        text = f"The capital of {land} is {self.adverb} [MASK]."
        (bucket,) = encode_texts(self.exported, tokenizer, [text])
        logits = model.logits(bucket.ids, bucket.mask_position)[0]
        advance(1, 1)
        first = tokenizer.token_text(int(logits.argmax()))
        keys = {"dataset": "capitals", "condition": "original", "item": land, "splits": "all", "cluster": land}
        return PartResult(pl.DataFrame([{**keys, "right": first == city, "logit": float(logits.max())}]))

    @staticmethod
    def publish(parts):
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: frame(means(parts.rows, ["right"]))}
""",
    "capitals/runs.py": """
from negengine.engine.library.model import find_model
from negengine.engine.probes.summary_run import SummaryRun, run_probe
from negengine.engine.tables import Column, Table

from .stage import Capitals


class CapitalsRun(SummaryRun):
    stage = Capitals.name
    metrics = ("right", "logit")
    condition_keys = ()

    def tables(self):
        return [Table("Capitals", self.summary, [Column("split", "split"), Column("right", "value", decimals=2)])]


def capitals(model, *, adverb="always", **options):
    opened = find_model(model)
    return run_probe(Capitals(opened.exported, adverb), CapitalsRun, opened, options)
""",
    "capitals/commands.py": '''
from typing import Annotated

import typer
from negengine.engine.commands import options
from negengine.engine.commands.run_command import run_command


@run_command
def capitals(
    setup, model: options.Model = "mini", adverb: Annotated[str, typer.Option(help="Before the capital.")] = "always"
):
    """Ask for capitals."""
    from .runs import capitals as run

    return run(setup.model(model), adverb=adverb, **setup.run)
''',
    "capitals-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: capitals\nVersion: 1.0\n",
    "capitals-1.0.dist-info/entry_points.txt": "[negengine.probes]\ncapitals = capitals:PROBE\n",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of the installed package."""
    folder = tmp_path_factory.mktemp("site-packages")
    for name, content in PACKAGE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, "utf-8")
    return folder


@pytest.fixture(scope="module")
def python(installed, tmp_path_factory):
    """Runs Python where the package is installed; gives stdout."""
    work = tmp_path_factory.mktemp("work")

    def run(*arguments, fails=False):
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == (2 if fails else 0), done.stderr
        return done.stderr if fails else done.stdout

    run.work = work
    return run


@pytest.fixture(scope="module")
def negengine(python):
    """The real command line."""

    def run(*arguments, fails=False):
        return python("-m", "negengine.engine.cli", *arguments, fails=fails)

    return run


@pytest.fixture(scope="module")
def whole(negengine, python, mini):
    """A finished run of the probe."""
    document = json.loads(negengine("capitals", mini.folder, "-o", "runs/whole", "--json"))
    assert document["run"] == "runs/whole"
    return python.work / "runs" / "whole"


@pytest.fixture(scope="module")
def shards(negengine, mini):
    """Both shards of the same run, one of them by two processes."""
    for number, device in ((1, "cpu"), (2, "cpu,cpu")):
        options = ("--shard", f"{number}/2", "--device", device)
        negengine("capitals", mini.folder, *options, "-o", f"runs/shard-{number}")
    return ["runs/shard-2", "runs/shard-1"]


def test_help_shows_the_command_with_its_own_and_the_common_options(negengine):
    assert "Ask for capitals." in negengine("--help")
    help_text = negengine("capitals", "--help")
    assert all(option in help_text for option in ("--adverb", "--shard", "--device", "--format"))


def test_a_run_has_its_files_and_shows_its_table_again(negengine, whole, mini):
    assert pl.read_parquet(whole / "items.parquet")["item"].to_list() == ["France", "Italy", "England", "Germany"]
    header, row = negengine("capitals", mini.folder, "-o", whole, "--format", "csv").splitlines()
    assert header.startswith("dataset,condition,split,metric,value")
    assert row.startswith("capitals,original,all,right")


def test_merged_shards_have_the_same_bytes(negengine, python, whole, shards):
    negengine("merge", *shards, "-o", "runs/merged")
    for name in ("items.parquet", "summary.parquet"):
        assert (python.work / "runs/merged" / name).read_bytes() == (whole / name).read_bytes()


def test_runs_are_compared_by_its_metrics(negengine, whole, mini):
    negengine("capitals", mini.folder, "--adverb", "never", "-o", "runs/never")
    rows = json.loads(negengine("compare", "runs/whole", "runs/never", "--json"))
    assert {(row["metric"], row["n"]) for row in rows} == {("right", 4), ("logit", 4)}


def test_the_library_has_its_function_and_opens_its_runs(python, whole, mini):
    script = (
        "import negengine as ng, sys; model = ng.load(sys.argv[1]);"
        "run = ng.capitals(model, output='runs/library', progress=False);"
        "print(type(run).__name__, type(ng.open(sys.argv[2])).__name__, run.items.equals(ng.open(sys.argv[2]).items))"
    )
    assert python("-c", script, mini.folder, whole).split() == ["CapitalsRun", "CapitalsRun", "True"]


def test_a_shard_is_not_compared_but_says_what_it_needs(negengine, shards, whole):
    assert "only shard 1/2 of capitals; put all shards together with `merge`" in negengine(
        "compare", "runs/shard-1", whole, fails=True
    )


def test_other_options_for_the_same_folder_are_refused(negengine, whole, mini):
    said = negengine("capitals", mini.folder, "--adverb", "never", "-o", whole, fails=True)
    assert "adverb always, now never" in said
