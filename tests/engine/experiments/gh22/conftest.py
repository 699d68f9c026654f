"""A small lexicon, and a whole run of the bundled model over it."""

import pytest
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import Gh22Run, run_both
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.session import Session
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon, load_lexicon

RANKS = (1, 50, 100)
VARIANTS = {variant: load_variant(variant) for variant in Variant}
ORIGINAL = {Variant.ORIGINAL: VARIANTS[Variant.ORIGINAL]}
LEXICON = Lexicon(
    names=("Jessica", "Maria", "John"),
    genders=("f", "f", "m"),
    professions=("a dancer", "an architect"),
    verbs=load_lexicon().verbs,
    pronouns={"f": "she", "m": "they"},
)


def run(acts, variants, folder, *, shard="1/1", precision=Precision.FP32, **sizes):
    """One thread: other numbers of threads make other batches, which change the last digits of logits."""
    options, reporter = Opening(precision=precision, threads=1), Reporter(silent=True)
    session = Session(again="negengine gh22 mini")
    execution = Execution(ThisProcess(CPU), options, Shard.parse(shard), reporter, session)
    run_both(acts, variants, folder, execution, **sizes)
    return folder


@pytest.fixture(scope="session")
def acts(mini):
    """The first stage over six pairs, in parts of four."""
    return Acts.plan(mini, LEXICON, VARIANTS[Variant.ORIGINAL].selecting, ranks=RANKS, pairs_per_part=4)


@pytest.fixture(scope="session")
def finished(acts, tmp_path_factory):
    """All variants."""
    return Gh22Run.open(run(acts, VARIANTS, tmp_path_factory.mktemp("run") / "gh22"))


@pytest.fixture(scope="session")
def in_parts(acts, tmp_path_factory):
    """The original patterns alone, 18 ACTs in four parts."""
    return Gh22Run.open(run(acts, ORIGINAL, tmp_path_factory.mktemp("run") / "gh22", acts_per_part=5))
