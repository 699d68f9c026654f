"""`ng.verify`: a run or a model compared with what it should hold. Nothing in its folder is changed."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ...errors import InputError
from ...experiments.nli.judgements import Judgements
from ...files.home import with_home
from ...inference.classifier import TASK
from ...inference.exported import ExportedModel, load_exported
from ...library.registry import run_class
from ...library.run import Run
from ...runs.lock import refuse_held
from ...runs.record import RUN_FILE, read_run
from ...runs.results import begun_stages
from ...text.bundled import lexicon_path
from ...text.language import load_language
from ...text.lexicon import Lexicon, load_lexicon
from .checks import Check, Outcome, Verification
from .model import verify_model
from .pytorch import torch_reference
from .reference import ExportedReference, Reference
from .results import check_results, foreign_files
from .sample import Sample
from .stored import StoredStage

SAMPLE = 300
"""How many items of each kind are decided again by default."""


def verify(
    target: str | Path | Run,
    *,
    sample: int | None = None,
    seed: int = 0,
    model: str | Path | None = None,
    lexicon: str | Path | None = None,
    torch: str | None = None,
) -> Verification:
    """Compare a run or an exported model with what it should hold; nothing is changed.

    Args:
        target: A run, its folder, an exported folder, or the name of an exported model.
        sample: How many items of each kind, or how many sentences, are decided again, one by one, by the reference
            model in fp32; 0 for none. By default 300, if the model of the run is found.
        seed: Seed for the choice of these items.
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
    if seed < 0:
        raise InputError(f"--seed {seed}: must be 0 or more")
    folder = target.folder if isinstance(target, Run) else Path(target)
    if (folder / RUN_FILE).exists():
        asked = Asked(sample, seed, model, None if lexicon is None else Path(lexicon), torch)
        return verify_run(folder, asked)
    if model is not None or lexicon is not None:
        raise InputError(f"{folder} is not a run: --model and --lexicon are for runs")
    return verify_model(folder, SAMPLE if sample is None else sample, seed, torch)


@dataclass(frozen=True)
class Asked:
    """What a user asked for; see `verify`."""

    sample: int | None = None
    seed: int = 0
    model: str | Path | None = None
    lexicon: Path | None = None
    torch: str | None = None


def verify_run(folder: Path, asked: Asked) -> Verification:
    """Verify a run folder; see `verify`."""
    refuse_held(folder)
    before = begun_stages(folder)
    stored = [StoredStage(folder, name, record) for name, record in before.items()]
    checks = [Check(RUN_FILE, "the file is as it was written", 1, "files")]  # it was read
    checks += [check for stage in stored for check in check_results(stage)]
    if asked.sample != 0:
        checks += _decided_again(stored, checks, asked)
    refuse_held(folder)
    if read_run(folder).stages != before:
        raise InputError(f"{folder}: another process has changed it in the meantime; verify it again")
    foreign = foreign_files(stored)
    notes = [f"{folder}: not written by this run: {', '.join(foreign)}"] if foreign else []
    name = str(stored[0].record.identity.get("model", ""))
    return Verification.of(folder, "run", name, checks, notes)


def _decided_again(stored: list[StoredStage], before: list[Check], asked: Asked) -> Iterator[Check]:
    """The samples of all stages whose results can be read."""
    unreadable = {check.of for check in before if check.is_damage}
    stages = [
        stage
        for stage in stored
        if stage.record.finished and stage.shard.is_whole and not stage.unlike and run_class(stage.name) is not None
    ]
    if not stages:
        return
    try:
        exported = _model_of(stages[-1], stored, asked.model)
    except InputError as error:
        if asked.model is not None or asked.sample is not None or asked.torch is not None:
            raise
        detail = f"{error}; if the model has moved, give --model"
        for stage in stages:
            yield Check(stage.name, "items decided again", outcome=Outcome.NOT_CHECKED, detail=detail)
        return
    references: list[Reference] = [ExportedReference(exported)]
    if asked.torch is not None:
        references.append(torch_reference(asked.torch, exported))
    for stage in stages:
        kind = run_class(stage.name)
        if kind is None:
            continue
        for reference in references:
            sample = Sample(exported, reference, asked.sample or SAMPLE, asked.seed, _lexicon_of(stage, asked.lexicon))
            try:
                yield from sample.checks(stage, kind.open(stage.folder))
            except InputError as error:
                outcome = Outcome.NOT_CHECKED
                yield Check(stage.name, f"items decided again by {reference.name}", outcome=outcome, detail=str(error))
            except (pl.exceptions.PolarsError, LookupError, TypeError, ValueError):
                if stage.name not in unreadable:  # damage that was found before can make any error here
                    raise


def _lexicon_of(stage: StoredStage, given: Path | None) -> Lexicon | None:
    """The words of a run: those given, those where the run found its own, or the bundled ones.

    Raises:
        InputError: Those given cannot be read.
    """
    arguments = stage.record.metadata.get("call", {}).get("arguments", {})
    patterns = _source(arguments.get("patterns"))
    if given is not None:
        with suppress(InputError):  # the patterns may have been moved, too
            return load_language(patterns, given).lexicon
        return load_lexicon(lexicon_path(given))
    with suppress(InputError):
        return load_language(patterns, _source(arguments.get("lexicon"))).lexicon
    return None


def _source(argument: Any) -> str | Path | None:
    """The name or the file that a call has recorded."""
    match argument:
        case {"path": str(path)}:
            return with_home(path)
        case str(name):
            return name
    return None


def _model_of(stage: StoredStage, stored: list[StoredStage], given: str | Path | None) -> ExportedModel:
    """The model of a run.

    Raises:
        InputError: It is not found, or it is another one.
    """
    folders = [stage.record.metadata.get("model folder") for stage in stored]
    recorded = next((folder for folder in reversed(folders) if folder), None)
    if given is None and recorded is None:
        raise InputError(f"{stage.folder}: run.json does not say where the model is")
    location = given or with_home(str(recorded))
    task = TASK if stage.name == Judgements.name else None
    exported = load_exported(location, task=task)
    wanted = stage.record.identity.get("model sha256")
    if exported.sha256 != wanted:
        raise InputError(
            f"{exported.folder} is not the model of {stage.folder} (sha256 {exported.sha256[:12]}…, "
            f"in run.json {str(wanted)[:12]}…)"
        )
    return exported
