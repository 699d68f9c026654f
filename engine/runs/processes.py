"""Several devices: one process for each, which is given one part after the other.

Processes and not threads, as each has its own CUDA context, interpreter lock and cores. Parts are handed out as
processes become free, so a slow device does not hold up the others. A process ends when the one that started it is
gone: its standard input closes then.
"""

import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any, cast

from ..errors import InputError
from ..inference.device import Device, threads_each
from .executors import Advance, Finish, Say, Workers, opened
from .overlap import overlap
from .part import EncodedPart
from .stage import ModelOptions, PartResult, Stage

_IN_FLIGHT = 3  # parts that a process has: one is decided, one is composed, one waits
_SECONDS_TO_END = 5
_HEADER = struct.Struct("<Q")


@dataclass(frozen=True)
class Processes:
    """One process for each device; the same device may be given several times."""

    devices: tuple[Device, ...]

    @contextmanager
    def start(self, stage: Stage[Any, Any], options: ModelOptions, say: Say) -> Iterator[Workers]:
        """See `Executor`.

        Raises:
            InputError: A process cannot open the model.
        """
        threads = threads_each(self.devices, options.threads)
        inbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        children: list[_Child] = []
        try:
            for index, (device, own) in enumerate(zip(self.devices, threads, strict=True)):
                name = f"{device} ({index + 1} of {len(self.devices)})"
                children.append(_Child.start(index, name, inbox))
                children[-1].send(("open", stage, replace(options, device=device, threads=own)))
            descriptions: dict[int, Mapping[str, Any]] = {}
            for _ in children:
                index, message = inbox.get()
                (descriptions[index],) = children[index].expect("opened", message)
                say(f"{children[index].name}: {opened(descriptions[index])}")
            yield _Pool(children, inbox, [descriptions[i] for i in range(len(children))])
        finally:
            for child in children:
                child.stop()


@dataclass(frozen=True, eq=False)
class _Pool:
    children: Sequence["_Child"]
    inbox: "queue.SimpleQueue[tuple[int, Any]]"
    descriptions: Sequence[Mapping[str, Any]]

    @property
    def description(self) -> Mapping[str, Any]:
        keys = dict.fromkeys(key for own in self.descriptions for key in own)
        merged = {key: list(dict.fromkeys(own.get(key) for own in self.descriptions)) for key in keys}
        together = {key: values[0] if len(values) == 1 else values for key, values in merged.items()}
        return {**together, "device": [own.get("device") for own in self.descriptions]}

    def calibrate(self, own: int, say: Say) -> dict[str, Any]:
        self.children[0].send(("calibrate", own))
        while True:
            index, message = self.inbox.get()
            if message is not None and message[0] == "say":
                say(message[1])
                continue
            (calibration,) = self.children[index].expect("calibrated", message)
            found: dict[str, Any] = calibration
            return found

    def run(self, numbers: Sequence[int], calibration: Mapping[str, Any], finish: Finish, advance: Advance) -> None:
        waiting = iter(numbers)
        running = 0
        all_given = False

        def give(child: "_Child") -> None:
            nonlocal running, all_given
            if (number := next(waiting, None)) is not None:
                child.send(("part", number))
                running += 1
            elif not all_given:  # a process looks one part ahead: it must know at once that there is none
                all_given = True
                for other in self.children:
                    other.send(("end",))

        for child in self.children:
            child.send(("run", dict(calibration)))
        for child in [*self.children] * _IN_FLIGHT:
            give(child)
        while running:
            index, message = self.inbox.get()
            child = self.children[index]
            if message is not None and message[0] == "advance":
                advance(*message[1:])
                continue
            number, part = child.expect("part", message)
            running -= 1
            give(child)
            finish(number, part)


@dataclass(frozen=True, eq=False)
class _Child:
    """A process of `worker_main`, and the thread that listens to it."""

    name: str
    process: "subprocess.Popen[bytes]"
    stdin: IO[bytes]
    listener: threading.Thread

    @classmethod
    def start(cls, index: int, name: str, inbox: "queue.SimpleQueue[tuple[int, Any]]") -> "_Child":
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import worker_main; worker_main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stdin, stdout = cast("tuple[IO[bytes], IO[bytes]]", (process.stdin, process.stdout))

        def listen() -> None:
            with stdout, suppress(OSError, ValueError, EOFError, pickle.UnpicklingError):
                while True:
                    inbox.put((index, _receive(stdout)))
            inbox.put((index, None))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        return cls(name, process, stdin, listener)

    def send(self, message: tuple[Any, ...]) -> None:
        with suppress(OSError, ValueError):  # a process that is gone is told by its listener
            _send(self.stdin, message)

    def expect(self, kind: str, message: Any) -> tuple[Any, ...]:
        """The content of a message of this kind; raises what the process says instead."""
        if message is None:
            raise InputError(
                f"--device {self.name}: its process ended with status {self.process.wait()}; finished parts are kept, "
                "run the same command again to resume"
            )
        if message[0] == "refused":
            raise InputError(message[1])
        if message[0] == "failed":
            raise RuntimeError(f"{self.name}: {message[1]}")
        if message[0] != kind:
            raise RuntimeError(f"{self.name}: {message[0]} in place of {kind}")
        return tuple(message[1:])

    def stop(self) -> None:
        with suppress(OSError, ValueError):
            self.stdin.close()
        try:
            self.process.wait(timeout=_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join()


def worker_main() -> None:
    """What a process of `Processes` runs: it reads commands from stdin and answers on stdout, in pickles."""
    import os  # noqa: PLC0415 - only here: the file descriptors of a process of its own

    for name in ("SIGINT", "SIGHUP"):  # the starting process decides when to stop
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    lock = threading.Lock()

    def answer(*message: Any) -> None:
        with lock:
            _send(answers, message)

    commands: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def read() -> None:
        with suppress(OSError, EOFError, ValueError):
            while True:
                commands.put(_receive(sys.stdin.buffer))
        os._exit(0)  # whoever started this process is gone, or done with it

    threading.Thread(target=read, daemon=True).start()
    try:
        _work(commands, answer)
    except InputError as error:
        answer("refused", str(error))
    except BaseException:  # noqa: BLE001 - whatever it is, the starting process must hear of it
        answer("failed", traceback.format_exc())
    threading.Event().wait()  # until stdin closes: ending earlier could cut off the answer


def _work(commands: "queue.SimpleQueue[tuple[Any, ...]]", answer: Any) -> None:
    stage: Stage[Any, Any]
    _, stage, options = commands.get()
    model = stage.open(options)
    answer("opened", dict(stage.describe(model)))
    while True:
        kind, *content = commands.get()
        if kind == "calibrate":
            answer("calibrated", stage.calibrate(model, content[0], lambda line: answer("say", line)))
        elif kind == "run":
            _run(stage, stage.use(model, content[0]), commands, answer)


def _run(stage: Stage[Any, Any], model: Any, commands: "queue.SimpleQueue[tuple[Any, ...]]", answer: Any) -> None:
    def numbers() -> Iterator[int]:
        while (command := commands.get())[0] == "part":
            yield command[1]

    def decide(number: int, prepared: Any) -> PartResult:
        return stage.decide(model, number, prepared, lambda done, sentences: answer("advance", done, sentences))

    def finish(number: int, result: PartResult) -> None:
        answer("part", number, EncodedPart.of(result))

    overlap(numbers(), stage.prepare, decide, finish)


def _send(stream: IO[bytes], message: tuple[Any, ...]) -> None:
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_HEADER.pack(len(content)))
    stream.write(content)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    (size,) = _HEADER.unpack(header)
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return pickle.loads(content)  # noqa: S301 - from a process that this one started
