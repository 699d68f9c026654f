"""`ng.verify`: a run or a model compared with what it should hold. Nothing in its folder is changed."""

from pathlib import Path

from ..errors import InputError
from ..library.run import Run
from ..runs.folder import begun_stages
from ..runs.lock import refuse_held
from ..runs.record import RUN_FILE, read_run
from .checks import Check, Verification
from .results import check_results, foreign_files
from .stored import StoredStage

SAMPLE = 300
"""How many items are decided again by default."""


def verify_run(folder: Path) -> Verification:
    """Verify a run folder.

    Raises:
        InputError: It is not a run folder, or a process works in it.
    """
    refuse_held(folder)
    before = begun_stages(folder)
    stored = [StoredStage(folder, name, record) for name, record in before.items()]
    checks: list[Check] = []
    for stage in stored:
        checks += check_results(stage)
    refuse_held(folder)
    if read_run(folder).stages != before:
        raise InputError(f"{folder}: another process has changed it in the meantime; verify it again")
    name = str(stored[0].record.identity.get("model", ""))
    foreign = foreign_files(stored)
    notes = [f"{folder}: not of this run: {', '.join(foreign)}"] if foreign else []
    return Verification(folder, "run", name, tuple(checks), tuple(notes))
