"""Several devices: one process for each, a shard of the run each, put together at the end.

Processes and not threads, as each has its own CUDA context, interpreter lock and cores. What a process prints is
passed on with its device before it; an interrupt is passed down, so that every shard stays resumable.
"""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..errors import InputError


def run_shards(devices: Sequence[str], command: Sequence[str], folder: Path, say: Callable[[str], None]) -> list[Path]:
    """Run a command of this program once for each device, on one share of the work each.

    Args:
        devices: one for each process; the same one may be given several times.
        command: its name, arguments and options, without --device, --shard and --output.
        folder: what the shards' folders begin with: shard 1 of 2 goes to FOLDER-1-of-2.
        say: is given every line that a process says, with its device before it.

    Returns:
        The folders of the finished shards.

    Raises:
        InputError: a process did not finish; the others have been stopped, and all can be resumed.
    """
    folders = [folder.with_name(f"{folder.name}-{i}-of-{len(devices)}") for i in range(1, len(devices) + 1)]
    processes: list[subprocess.Popen[str]] = []
    listeners: list[threading.Thread] = []
    finished = threading.Event()
    try:
        for number, (device, shard) in enumerate(zip(devices, folders, strict=True), 1):
            own = ["--device", device, "--shard", f"{number}/{len(devices)}", "--output", str(shard)]
            process = subprocess.Popen(
                [sys.executable, "-m", "negengine.engine.cli.main", *command, *own],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # a Ctrl-C reaches this process alone, which passes it on once
            )
            processes.append(process)
            listener = threading.Thread(target=_listen, args=(process, f"{device} ({number})", say, finished))
            listener.start()
            listeners.append(listener)
        while any(process.poll() is None for process in processes):
            finished.wait()
            finished.clear()
            if any(process.poll() for process in processes):
                break
    finally:
        for process in processes:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
        for process, listener in zip(processes, listeners, strict=True):
            process.wait()
            listener.join()
    for device, process, shard in zip(devices, processes, folders, strict=True):
        if process.returncode not in _STOPPED_OR_DONE:
            raise InputError(
                f"--device {device}: the process on {shard} ended with status {process.returncode}; what it says is "
                "above, what is finished is kept"
            )
    if any(process.returncode for process in processes):
        raise KeyboardInterrupt
    return folders


_STOPPED_OR_DONE = {0, 130, -signal.SIGINT}


def _listen(process: subprocess.Popen[str], name: str, say: Callable[[str], None], finished: threading.Event) -> None:
    stream: IO[str] | None = process.stderr
    for line in stream or ():
        say(f"{name}: {line.rstrip()}")
    process.wait()
    finished.set()
