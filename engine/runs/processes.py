"""Several devices: each has a process, which gets one part after the other, as it becomes free.

Of several kinds of devices, one has the run's low-precision model. The processes have a session of their own: Ctrl-C
reaches the starting process alone, which stops them; they end when it is gone, as their standard input closes then.
`multiprocessing` would run the user's script again in each, unless the script protects itself against that.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import count
from typing import IO, Any, TextIO, cast

from ..basics.choices import Precision
from ..basics.errors import InputError, StoppedError
from ..basics.option import Opening
from ..inference import tally
from ..inference.device import threads_each
from ..inference.session import Device
from .executors import IN_FLIGHT, Finish, PartWorker, Say, Workers, divide, opened
from .part import EncodedPart
from .stage import Advance, Choices, Stage
from .stderr import Stderr

# The process imports from where this one does, also what a notebook or a test added to `sys.path`.
_START = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import worker_main; worker_main()"
_ENDED = (EOFError, OSError, ValueError, pickle.UnpicklingError)  # of a pipe whose other side has gone


@dataclass(frozen=True)
class Processes:
    """One process for each device; the same device may be given several times."""

    devices: tuple[Device, ...]

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: Opening, say: Say) -> Iterator[Workers]:
        first = min(self.devices, key=lambda device: device.uses_cores)
        mixes = [device.kind == first.kind for device in self.devices]
        alone = replace(options, precision=Precision.FP32)
        each = [
            replace(options if own else alone, device=str(device), threads=threads)
            for device, threads, own in zip(
                self.devices, threads_each(self.devices, options.threads), mixes, strict=True
            )
        ]
        orders = [pickle.dumps((stage, own)) for own in each]
        children: list[_Child] = []
        try:
            for index, device in enumerate(self.devices):  # all are started before the first is sent anything
                children.append(_Child(f"{device} ({index + 1} of {len(self.devices)})"))
            calls = {child.ask("open", order): child for child, order in zip(children, orders, strict=True)}
            for call in as_completed(calls):
                say(f"{calls[call].name}: {opened(call.result())}")
            yield _Pool(children, [call.result() for call in calls], mixes)
        finally:  # each ends by itself once its stdin closes, unless it hangs
            for child in children:
                with suppress(OSError, ValueError):
                    child.stdin.close()
            latest = time.monotonic() + 5  # seconds for all
            for child in children:
                try:
                    child.process.wait(timeout=max(0.0, latest - time.monotonic()))
                except subprocess.TimeoutExpired:
                    child.process.kill()
                    child.process.wait()
                child.listener.join()


@dataclass(frozen=True, eq=False)
class _Pool:
    children: Sequence["_Child"]
    descriptions: Sequence[Mapping[str, Any]]
    mixes: Sequence[bool]  # of each child, whether it may have the run's low-precision model

    def choose(self, say: Say) -> Choices:
        choices, said = self.children[self.mixes.index(True)].ask("choose").result()
        for line in said:
            say(line)
        return cast("Choices", choices)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        mixed = {name: own for name, own in choices.calibration.items() if "bound" in own}
        alone = {**choices.calibration, **{name: {"precision": Precision.FP32} for name in mixed}}
        own = dict[_Child, Choices]()
        for child, mixes in zip(self.children, self.mixes, strict=True):
            child.advance, own[child] = advance, choices if mixes else replace(choices, calibration=alone)
            if mixed and not mixes:
                tally.say(f"{child.name}: the fp32 model decides alone; the low-precision model is for another device")
        places = [*self.children] * IN_FLIGHT
        divide(numbers, places, lambda child, number: child.ask("decide", number, own[child]), finish)


class _Child:
    """A process, asked by calls with a number; its answers have the same number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.advance: Advance = lambda *_: None
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps([path for path in sys.path if isinstance(path, str)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Where this process began without a stderr, its number may now be that of another file.
            stderr=subprocess.DEVNULL if sys.__stderr__ is None else None,
            start_new_session=True,
        )
        self.stdin = cast("IO[bytes]", self.process.stdin)
        self._numbers, self._calls = count(), dict[int, Future[Any]]()
        self._ended, self._end = threading.Lock(), ""
        # with the context of this thread, in which models tell what a person should know
        self.listener = threading.Thread(target=copy_context().run, args=(self._listen,), daemon=True)
        self.listener.start()

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """What the process answers, later: also an error that it tells, or that it has ended."""
        number, call = next(self._numbers), Future[Any]()
        with self._ended:
            if self._end:
                call.set_exception(StoppedError(self._end))
                return call
            self._calls[number] = call
        with suppress(OSError, ValueError):  # the listener finds that a process has ended
            pickle.dump((number, method, arguments), self.stdin)
            self.stdin.flush()
        return call

    def _listen(self) -> None:
        with cast("IO[bytes]", self.process.stdout) as stdout, suppress(*_ENDED):
            while True:
                kind, *content = pickle.load(stdout)  # noqa: S301 - of a process that this one has started
                if kind == "note":
                    tally.say(*content)
                elif kind == "advance":
                    self.advance(*content)
                elif kind == "answer":
                    self._calls.pop(content[0]).set_result(content[1])
                else:
                    error = content[1] if kind == "refused" else RuntimeError(f"--device {self.name}: {content[1]}")
                    self._calls.pop(content[0]).set_exception(error)
        with self._ended:
            self._end = f"--device {self.name}: its process {_told(self.process.wait())}"
            for call in self._calls.values():
                call.set_exception(StoppedError(self._end))


def _told(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = next((own.name for own in signal.Signals if own == -status), f"signal {-status}")
    return f"was killed by {name}" + (" (is the memory full?)" if name == "SIGKILL" else "")


def worker_main() -> None:
    """What a process of `Processes` runs: it reads calls from stdin and answers on stdout, in pickles."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers, and must not fail on a broken stderr
    sys.stdout = sys.stderr = cast("TextIO", Stderr())
    lock = threading.Lock()
    own: PartWorker[Any, Any]

    def tell(*message: Any) -> None:
        with lock:
            try:
                pickle.dump(message, answers)
                answers.flush()
            except OSError:
                os._exit(1)  # the reader has gone

    def open_model(order: bytes) -> Mapping[str, Any]:
        nonlocal own
        own = PartWorker(*pickle.loads(order))  # noqa: S301
        return own.description

    def choose() -> tuple[Choices, list[str]]:
        said: list[str] = []
        return own.choose(said.append), said

    def decide(number: int, choices: Choices) -> EncodedPart:
        return own.ask(number, choices, lambda done, sentences: tell("advance", done, sentences)).result()

    def answer(call: int, method: str, arguments: Sequence[Any]) -> None:
        try:
            tell("answer", call, methods[method](*arguments))
        except InputError as error:
            tell("refused", call, error)
        except BaseException:  # noqa: BLE001 - whatever it is, the starting process must hear of it
            tell("failed", call, traceback.format_exc())

    methods: dict[str, Callable[..., Any]] = {"open": open_model, "choose": choose, "decide": decide}
    tally.listen(lambda line: tell("note", line))
    threads = ThreadPoolExecutor(IN_FLIGHT)
    with suppress(*_ENDED):
        while True:
            threads.submit(answer, *pickle.load(sys.stdin.buffer))  # noqa: S301 - of the process that started this one
    os._exit(0)  # the starting process has ended, or does not need this one any more
