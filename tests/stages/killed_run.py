"""A program: runs a pickled stage and is killed by SIGKILL after some parts: `killed_run.py JOB PARTS`.

JOB is a file with the pickle of stage, folder, precision, and earlier stages.
"""

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from negengine.engine.basics.option import Opening
from negengine.engine.inference.device import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.folder import RunFolder
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.part import EncodedPart
from negengine.engine.runs.progress import Reporter


def main(job: Path, parts: int) -> None:
    left, whole = [parts], RunFolder.write_part

    def write_part(folder: RunFolder, number: int, part: EncodedPart) -> None:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        whole(folder, number, part)

    RunFolder.write_part = write_part  # type: ignore[method-assign]
    content: tuple[Any, ...] = pickle.loads(job.read_bytes())  # noqa: S301 - the test wrote it
    stage, folder, precision, earlier = content
    execution = Execution(ThisProcess(CPU), Opening(precision=precision), reporter=Reporter(silent=True))
    run_stage(stage, folder, execution, earlier=earlier)


main(Path(sys.argv[1]), int(sys.argv[2]))
