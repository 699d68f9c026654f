"""`ng.verify`: a run or a model compared with what it should hold. Nothing in its folder is changed."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ...basics.errors import InputError
from ...basics.numerals import significant
from ...basics.reading import file_sha256
from ...experiments.registry import run_class
from ...inference.again import Compared, Draw, Reference, Sample, Verdict
from ...inference.audit import disagreement_bound
from ...inference.exported import ExportedModel, is_low_precision
from ...library.run import Run, model_of
from ...runs.lock import refuse_held
from ...runs.record import RUN_FILE, read_run
from ...runs.results import begun_stages
from .checks import Check, Verification
from .model import any_model, verify_model
from .own_rows import COLUMNS, check_own_rows
from .reference import ExportedReference, each, torch_reference
from .results import StoredStage, check_results, foreign_files

SAMPLE = 300  # items of each kind that are decided again by default
CONFIDENCE = 0.95


def verify(
    target: str | Path | Run,
    *,
    sample: int | None = None,
    seed: int | None = None,
    model: str | Path | None = None,
    lexicon: str | Path | None = None,
    torch: str | None = None,
) -> Verification:
    """Compare a run or an exported model with what it should hold; nothing is changed.

    Args:
        target: A run, its folder, an exported folder, or the name of an exported model.
        sample: How many items of each kind, or how many sentences, are decided again, one by one, by the reference
            model in fp32; 0 for none. By default 300, if the model of the run is found.
        seed: Seed for the choice of these items. By default the operating system gives one, so that nobody can know
            beforehand which items are drawn; the result names it.
        model: The folder of the run's model, if it was moved.
        lexicon: The word lists of a selection, if they were moved.
        torch: The checkpoint of the model: PyTorch decides the same items, too.

    Returns:
        The checks and their results. Damage does not raise an error; see `Verification.damage`.

    Raises:
        InputError: The target is neither a run nor a model, a process works in it, or the model or the checkpoint is
            another one.
    """
    if sample is not None and sample < 0:
        raise InputError(f"--sample {sample}: must be 0 or more")
    if seed is not None and seed < 0:
        raise InputError(f"--seed {seed}: must be 0 or more")
    seed = secrets.randbelow(2**32) if seed is None else seed
    folder = target.folder if isinstance(target, Run) else Path(target)
    if (folder / RUN_FILE).exists():
        found = _verify_run(folder, _Asked(sample, seed, model, None if lexicon is None else Path(lexicon), torch))
    elif model is not None or lexicon is not None:
        raise InputError(f"{folder} is not a run: --model and --lexicon are for runs")
    else:
        found = verify_model(folder, SAMPLE if sample is None else sample, seed, torch)
    drawn = [] if sample == 0 else [f"the samples were drawn with --seed {seed}"]
    return replace(found, notes=[*found.notes, *drawn])


@dataclass(frozen=True)
class _Asked:
    sample: int | None
    seed: int
    model: str | Path | None
    lexicon: Path | None
    torch: str | None


def _verify_run(folder: Path, asked: _Asked) -> Verification:
    refuse_held(folder)
    before = begun_stages(folder)
    stored = [StoredStage(folder, name, record) for name, record in before.items()]
    checks = [Check(RUN_FILE, "the file is as it was written", 1, "files")]  # it was read
    checks += [check for stage in stored for check in check_results(stage)]
    notes: list[str] = []
    if asked.sample != 0:
        checks += _decided_again(stored, checks, asked, notes)
    refuse_held(folder)
    if read_run(folder).stages != before:
        raise InputError(f"{folder}: another process has changed it in the meantime; verify it again")
    foreign = foreign_files(stored)
    notes += [f"{folder}: not looked at, as nothing here has their digest: {', '.join(foreign)}"] if foreign else []
    name = str(stored[0].record.identity.get("model", ""))
    return Verification(folder, "run", name, checks, notes)


def _decided_again(stored: list[StoredStage], before: list[Check], asked: _Asked, notes: list[str]) -> Iterator[Check]:
    runs = {stage: run_class(stage.name) for stage in stored if stage.is_whole and not stage.unlike}
    readable = {stage: run for stage, run in runs.items() if run is not None}
    if not readable:
        return
    try:
        last = list(readable)[-1]
        exported = model_of(last.folder, last.record, asked.model, any_model)
    except InputError as error:
        if any(given is not None for given in (asked.model, asked.sample, asked.torch)):
            raise
        yield from (Check(stage.name, "items decided again").skipped(str(error)) for stage in readable)
        return
    notes += _unused_damage(exported, in_low_precision=any(stage.record.counts.get("decided") for stage in stored))
    references: list[Reference] = [ExportedReference(exported)]
    if asked.torch is not None:
        references.append(torch_reference(asked.torch, exported))
    unreadable = {check.of for check in before if check.is_damage}
    draw = Draw(exported, asked.sample or SAMPLE, asked.seed, asked.lexicon)
    for stage, run in readable.items():
        for reference in references:
            try:
                for sample in run.open(stage.folder).again(draw):
                    yield _conclusion(stage, sample, reference)
            except InputError as error:
                yield Check(stage.name, f"items decided again by {reference.name}").skipped(str(error))
            except (pl.exceptions.PolarsError, LookupError, TypeError, ValueError):
                if stage.name not in unreadable:  # damage that was found before can make any error here
                    raise
        if asked.torch is not None and stage.name not in unreadable and COLUMNS in stage.record.metadata:
            yield check_own_rows(stage, run.open(stage.folder).items, draw)  # type: ignore[attr-defined]


def _unused_damage(exported: ExportedModel, *, in_low_precision: bool) -> Iterator[str]:
    """The damaged files of a model that a run did not use; one that it used is an `InputError`. Nothing is written."""
    for name, digest in exported.info["files"].items():
        if file_sha256(path := exported.folder / name) != digest:
            said = f"{path} is damaged (its sha256 is not that in export.json)"
            if in_low_precision or not is_low_precision(name):
                raise InputError(f"{said}: export it again with --force")
            yield f"{said}; this run did not use it, but others may: export the model again with --force"


def _conclusion(stage: StoredStage, sample: Sample, reference: Reference) -> Check:
    compared = each(sample.items, lambda item: item.again(reference), reference.at_once)
    what = f"{sample.kind} decided again by {reference.name}"
    check = Check(stage.name, what, len(compared), sample.kind.rsplit(maxsplit=1)[-1])
    if not compared:
        return Check(stage.name, what).skipped(sample.why_not)
    wrong = [found for found in compared if found.verdict is Verdict.WRONG]
    ties = sum(found.verdict is Verdict.NEAR_TIE for found in compared)
    bound = disagreement_bound(len(wrong), len(compared), CONFIDENCE)
    said = (
        f"{len(compared) - len(wrong) - ties:,} agree, {ties:,} near-ties, {len(wrong):,} wrong; "
        f"with 95 % confidence at most {significant(100 * bound, 2, (100,))} % are wrong"
    )
    check = replace(check, detail=said, wrong=len(wrong), near_ties=ties, bound=bound)
    if not are_too_many(compared, stage.record.counts):
        return check
    worst = min(wrong, key=lambda found: not found.is_exact)
    return check.damaged(f"{said} ({worst.name}: {worst.why})", stage.decide_again)


def are_too_many(compared: Sequence[Compared], counts: Mapping[str, Any]) -> bool:
    """Whether more are wrong than the run leaves possible: of low-precision decisions, what its audit allows."""
    wrong = [found for found in compared if found.verdict is Verdict.WRONG]
    if any(found.is_exact for found in wrong):
        return True
    alone = sum(not found.is_exact for found in compared)
    allowed = disagreement_bound(int(counts.get("disagreements", 0)), int(counts.get("audited", 0)))
    if not wrong:
        return False
    from scipy import special

    # The lower confidence bound on the share, one-sided (Clopper and Pearson 1934).
    return bool(special.betaincinv(len(wrong), alone - len(wrong) + 1, 1 - CONFIDENCE) > allowed)
