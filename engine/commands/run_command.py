"""Run commands: a command has its own options and calls the library once; this module adds what all commands share.

Every run command has --device, --precision, --batch-tokens, --threads, --shard, --ray with its options, --output,
--format, --json and -v, and prints its result in the same way. A command is a function whose first argument, `setup`,
opens models and holds the run options. It returns the result of the library function.
"""

import functools
import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..choices import TABLE, Precision
from ..files.home import shell_command
from . import options
from .console import document, say, show

if TYPE_CHECKING:
    from ..library.model import Model
    from ..library.options import RunOptions
    from ..library.shown import Shown
    from ..runs.ray import Ray

STARTED = time.monotonic()
"""When the program began: this module is imported before slow imports."""


@dataclass(frozen=True)
class Setup:
    """The values of the options that all run commands share.

    Attributes:
        device: Devices, separated by commas.
        precision: auto, fp32 or mixed.
        batch_tokens: Largest number of tokens in a batch.
        threads: CPU threads.
        shard: I/N, or auto.
        ray: Address of a Ray cluster; None for this machine without Ray.
        workers: Workers on the Ray cluster.
        cpus_per_worker: CPUs of each.
        gpus_per_worker: GPUs of each.
        output: The run folder.
        verbose: Whether to print more messages.
    """

    device: str
    precision: str
    batch_tokens: int | None
    threads: int | None
    shard: str | None
    ray: str | None
    workers: int | None
    cpus_per_worker: float | None
    gpus_per_worker: float | None
    output: Path | None
    verbose: bool

    def model(self, reference: str, task: str | None = None) -> "Model":
        """The model of the run. Wrong devices are refused first."""
        from ..library.model import find_model

        return find_model(reference, task=task, **self.opening)

    @property
    def opening(self) -> dict[str, Any]:
        """Keyword arguments of `find_model` and `score`: how models are opened."""
        return {
            "device": self.device if self.ray is None else "cpu",  # the workers' devices are the cluster's
            "precision": self.precision,
            "batch_tokens": self.batch_tokens,
            "threads": self.threads,
        }

    @property
    def run(self) -> "RunOptions":
        """Keyword arguments of every run function: the run options."""
        return {
            "output": self.output,
            "shard": self.shard,
            "executor": self.executor,
            "verbose": self.verbose,
            "command": command_line(),
            "started": STARTED,
        }

    @property
    def executor(self) -> "Ray | None":
        """Where parts run; None for the devices of this machine.

        Raises:
            InputError: An option belongs to --ray, or contradicts another one.
        """
        from ..errors import InputError
        from ..runs.ray import Ray

        if self.ray is not None:
            return Ray(
                self.ray,
                workers=self.workers,
                cpus_per_worker=self.cpus_per_worker,
                gpus_per_worker=self.gpus_per_worker,
                device=self.device,
            )
        own = {
            "--workers": self.workers,
            "--cpus-per-worker": self.cpus_per_worker,
            "--gpus-per-worker": self.gpus_per_worker,
        }
        if given := [f"{option} {value:g}" for option, value in own.items() if value is not None]:
            raise InputError(f"{given[0]}: this option belongs to --ray; add --ray local, or an address")
        return None


_COMMON: dict[str, tuple[Any, Any]] = {
    "device": (options.Devices, "auto"),
    "precision": (options.PrecisionOption, Precision.AUTO),
    "batch_tokens": (options.BatchTokens, None),
    "threads": (options.Threads, None),
    "shard": (options.Shard, None),
    "ray": (options.Ray, None),
    "workers": (options.Workers, None),
    "cpus_per_worker": (options.CpusPerWorker, None),
    "gpus_per_worker": (options.GpusPerWorker, None),
    "output": (options.RunFolder, None),
    "verbose": (options.Verbose, False),
}
PRINTING: dict[str, tuple[Any, Any]] = {
    "form": (options.FormatOption, TABLE),
    "as_json": (options.Json, False),
}
"""The options of commands that print tables: name → annotation and default."""


def run_command(function: "Callable[..., Shown]") -> Callable[..., None]:
    """Add the common options to a run command, and print what it returns."""

    @functools.wraps(function)
    def command(*, form: str, as_json: bool, **values: Any) -> None:
        common = {name: values.pop(name) for name in _COMMON}
        print_result(function(Setup(**common), **values), form, as_json, verbose=common["verbose"])

    return with_options(command, function, {**_COMMON, **PRINTING}, skip=1)


def with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command that prints its result itself."""

    @functools.wraps(function)
    def command(**values: Any) -> None:
        common = {name: values.pop(name) for name in _COMMON}
        function(Setup(**common), **values)

    return with_options(command, function, _COMMON, skip=1)


def table_command(function: "Callable[..., Shown]") -> Callable[..., None]:
    """Add --format and --json to a command, and print what it returns."""

    @functools.wraps(function)
    def command(*, form: str, as_json: bool, **values: Any) -> None:
        print_result(function(**values), form, as_json)

    return with_options(command, function, PRINTING, skip=0)


def print_result(result: "Shown", form: str, as_json: bool, *, verbose: bool = False) -> None:
    """Print a result, and in one line what was written where and what to do next.

    Args:
        result: The result.
        form: The format of its tables. A terminal shows the main tables only, unless more is asked for.
        as_json: Whether to print its JSON document instead.
        verbose: Whether more is asked for.
    """
    closing = list(filter(None, [result.closing()]))
    if as_json:
        document(result.document())
        for line in closing:
            say(line)
        return
    tables = result.main_tables() if form == TABLE and not verbose else result.tables()
    show(*tables, *result.remarks(), *closing, form=form)


def command_line() -> str:
    """The command line of this process, quoted for a shell."""
    return shell_command(["negengine", *sys.argv[1:]])


def resuming_command() -> str:
    """The command that resumes this process's run, also outside of the job array that it belongs to."""
    from ..errors import InputError
    from ..runs.scheduler import explicit_command, find_shard, is_automatic

    words = ["negengine", *sys.argv[1:]]
    given = [word.removeprefix("--shard=") for word in words if is_automatic(word.removeprefix("--shard="))]
    try:
        return shell_command(explicit_command(words, find_shard(given[-1])) if given else words)
    except InputError:
        return shell_command(words)


def with_options(
    command: Callable[..., None], function: Callable[..., Any], added: dict[str, tuple[Any, Any]], skip: int
) -> Callable[..., None]:
    """Give a command the signature that Typer reads: the function's own parameters, then the shared ones.

    Args:
        command: Takes all of them by name.
        function: The command's own function.
        added: Shared parameters: name → annotation and default; `...` for an option that must be given.
        skip: How many of the function's parameters are not options, from the first on.
    """
    signature = inspect.signature(function)
    own = list(signature.parameters.values())[skip:]
    common = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is ... else default,
            annotation=annotation,
        )
        for name, (annotation, default) in added.items()
    ]
    command.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *common)}
    return command
