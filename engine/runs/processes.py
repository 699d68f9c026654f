"""Several devices: each has a process, which gets one part after the other, as it becomes free.

Of several kinds of devices, one has the run's low-precision model. The processes have a session of their own: Ctrl-C
reaches the starting process alone, which stops them; they end when it is gone, as their standard input closes then.
`multiprocessing` would run the user's script again in each, unless the script protects itself against that.
"""

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any, TextIO, cast

from ..basics.choices import Precision
from ..basics.errors import InputError, StoppedError
from ..basics.option import Opening
from ..inference import tally
from ..inference.device import threads_each
from ..inference.session import Device
from ..inference.tally import Tally
from .executors import Finish, Say, Workers, opened, overlap, worker
from .part import EncodedPart
from .stage import Advance, Choices, PartResult, Stage
from .stderr import Stderr

_IN_FLIGHT = 3  # parts that a process has: one is decided, one is composed, one waits
_Inbox = queue.SimpleQueue[tuple[int, Any]]  # which process, and its message; None once it has ended

# The process imports from where this one does, also what a notebook or a test added to `sys.path`.
_START = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import worker_main; worker_main()"


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
            replace(options if own else alone, device=str(device), threads=count)
            for device, count, own in zip(self.devices, threads_each(self.devices, options.threads), mixes, strict=True)
        ]
        orders = [pickle.dumps((stage, own)) for own in each]
        inbox: _Inbox = queue.SimpleQueue()
        children: list[_Child] = []
        try:
            for index, device in enumerate(self.devices):  # all are started before the first is sent anything
                children.append(_Child(index, f"{device} ({index + 1} of {len(self.devices)})", inbox))
            for child, order in zip(children, orders, strict=True):
                child.write("open", order)
            descriptions: dict[int, Mapping[str, Any]] = {}
            for _ in children:
                index, message = _next_message(inbox)
                (description,) = children[index].content(message)
                say(f"{children[index].name}: {opened(description)}")
                descriptions[index] = worker(description, each[index])
            yield _Pool(children, inbox, [descriptions[i] for i in range(len(children))], mixes)
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
    inbox: _Inbox
    descriptions: Sequence[Mapping[str, Any]]
    mixes: Sequence[bool]  # of each child, whether it may have the run's low-precision model

    def choose(self, say: Say) -> Choices:
        self.children[self.mixes.index(True)].write("choose")
        while (answer := _next_message(self.inbox))[1] is not None and answer[1][0] == "say":
            say(answer[1][1])
        index, message = answer
        (choices,) = self.children[index].content(message)
        return cast("Choices", choices)

    def run(self, numbers: Sequence[int], choices: Choices, finish: Finish, advance: Advance) -> None:
        waiting = iter(numbers)
        running = 0
        all_given = False

        def give(child: "_Child") -> None:
            nonlocal running, all_given
            if (number := next(waiting, None)) is not None:
                child.write("part", number)
                running += 1
            elif not all_given:  # a process looks one part ahead: it must know at once that there is none
                all_given = True
                for other in self.children:
                    other.write("end")

        mixed = {name: own for name, own in choices.calibration.items() if "bound" in own}
        alone = {**choices.calibration, **{name: {"precision": Precision.FP32} for name in mixed}}
        for child, mixes in zip(self.children, self.mixes, strict=True):
            child.write("run", choices if mixes else replace(choices, calibration=alone))
            if mixed and not mixes:
                tally.say(f"{child.name}: the fp32 model decides alone; the low-precision model is for another device")
        for child in [*self.children] * _IN_FLIGHT:
            give(child)
        while running:
            index, message = _next_message(self.inbox)
            child = self.children[index]
            if message is not None and message[0] == "advance":
                advance(*message[1:])
                continue
            number, part = child.content(message)
            running -= 1
            give(child)
            finish(number, part)


class _Child:
    def __init__(self, index: int, name: str, inbox: _Inbox) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps([path for path in sys.path if isinstance(path, str)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Where this process began without a stderr, its number may now be that of another file.
            stderr=subprocess.DEVNULL if sys.__stderr__ is None else None,
            start_new_session=True,
        )
        self.stdin, stdout = cast("tuple[IO[bytes], IO[bytes]]", (self.process.stdin, self.process.stdout))

        def listen() -> None:
            with stdout, suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):  # it has ended
                while True:
                    inbox.put((index, pickle.load(stdout)))  # noqa: S301 - of a process that this one has started
            inbox.put((index, None))

        self.listener = threading.Thread(target=listen, daemon=True)
        self.listener.start()

    def write(self, *command: Any) -> None:
        with suppress(OSError, ValueError):  # the listener reports a process that has ended
            pickle.dump(command, self.stdin)
            self.stdin.flush()

    def content(self, message: Any) -> tuple[Any, ...]:
        """What a message holds; raises an error that the process tells, or that it has ended."""
        if message is None:
            end = f"ended with status {(status := self.process.wait())}"
            if status < 0:
                name = next((own.name for own in signal.Signals if own == -status), f"signal {-status}")
                end = f"was killed by {name}" + (" (is the memory full?)" if name == "SIGKILL" else "")
            raise StoppedError(f"--device {self.name}: its process {end}")
        if message[0] == "refused":
            raise message[1]
        if message[0] == "failed":
            raise RuntimeError(f"--device {self.name}: {message[1]}")
        return tuple(message[1:])


def _next_message(inbox: _Inbox) -> tuple[int, Any]:
    """The next message of any process; what models say is passed on."""
    while True:
        index, message = inbox.get()
        if message is None or message[0] != "note":
            return index, message
        tally.say(message[1])


def worker_main() -> None:
    """What a process of `Processes` runs: it reads commands from stdin and answers on stdout, in pickles."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers, and must not fail on a broken stderr
    sys.stdout = sys.stderr = cast("TextIO", Stderr())
    lock = threading.Lock()

    def answer(*message: Any) -> None:
        with lock:
            try:
                pickle.dump(message, answers)
                answers.flush()
            except OSError:
                os._exit(1)  # the reader has gone

    commands: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def read() -> None:
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                commands.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - of the process that started this one
        os._exit(0)  # the starting process has ended, or does not need this one any more

    threading.Thread(target=read, daemon=True).start()
    try:
        stage, options = pickle.loads(commands.get()[1])  # noqa: S301
        tally.listen(lambda line: answer("note", line))
        model = stage.open(options)
        answer("opened", dict(stage.describe(model)))
        while True:
            kind, *content = commands.get()
            if kind == "choose":
                answer("chosen", Choices(stage.calibrate(model, lambda line: answer("say", line))))
            elif kind == "run":
                _run(stage, stage.use(model, content[0].calibration), commands, answer)
    except InputError as error:
        answer("refused", error)
    except BaseException:  # noqa: BLE001 - whatever it is, the starting process must hear of it
        answer("failed", traceback.format_exc())
    threading.Event().wait()  # until stdin closes: ending earlier could cut off the answer


def _run(
    stage: Stage[Any, Any], model: Any, commands: "queue.SimpleQueue[tuple[Any, ...]]", answer: Callable[..., None]
) -> None:
    def numbers() -> Iterator[int]:
        while (command := commands.get())[0] == "part":
            yield command[1]

    def decide(number: int, prepared: Any) -> tuple[PartResult, Tally]:
        decided = stage.decide(model, number, prepared, lambda done, sentences: answer("advance", done, sentences))
        return decided, tally.take()

    def finish(number: int, result: tuple[PartResult, Tally]) -> None:
        answer("part", number, EncodedPart.of(*result))

    overlap(numbers(), stage.prepare, decide, finish)
