"""A small lexicon, and a whole run of the bundled model over it."""

import pytest
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import Gh22Run, run_both
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.inference.device import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon, load_lexicon

RANKS = (1, 50, 100)
LEXICON = Lexicon(
    names=("Jessica", "Maria", "John"),
    genders=("f", "f", "m"),
    professions=("a dancer", "an architect"),
    verbs=load_lexicon().verbs,
)


def execution(*, shard="1/1", executor=None):
    """One thread: other numbers of threads make other batches, which change the last digits of logits."""
    return Execution(
        executor or ThisProcess(CPU),
        Opening(threads=1),
        shard=Shard.parse(shard),
        reporter=Reporter(silent=True),
    )


@pytest.fixture(scope="session")
def acts(mini):
    """The first stage over six pairs, in parts of four."""
    return Acts.plan(mini, LEXICON, load_variant(Variant.ORIGINAL).selecting, ranks=RANKS, pairs_per_part=4)


@pytest.fixture(scope="session")
def original():
    return {Variant.ORIGINAL: load_variant(Variant.ORIGINAL)}


@pytest.fixture(scope="session")
def finished(acts, tmp_path_factory):
    """All variants."""
    folder = tmp_path_factory.mktemp("run") / "gh22"
    run_both(acts, {variant: load_variant(variant) for variant in Variant}, folder, execution())
    return Gh22Run.open(folder)


@pytest.fixture(scope="session")
def in_parts(acts, original, tmp_path_factory):
    """The original patterns alone, 18 ACTs in four parts."""
    folder = tmp_path_factory.mktemp("run") / "gh22"
    run_both(acts, original, folder, execution(), acts_per_part=5)
    return Gh22Run.open(folder)


def results(folder):
    """The bytes of the final files."""
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
