"""Run commands: a command has its own options and calls the library once; this module adds what all commands share."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from ..basics.choices import TABLE
from ..basics.errors import InputError
from ..basics.limits import refuse_little_memory
from ..basics.option import Opening, OptionField, flag, option_field, options_of, options_of_function
from ..basics.paths import shell_command
from . import options
from .console import document, say, show
from .program import Command

if TYPE_CHECKING:
    from ..library.options import RunOptions
    from ..library.shown import Shown
    from ..runs.executors import Executor

STARTED = time.monotonic()  # of the program: this module is imported before slow imports


@dataclass(frozen=True)
class ExecutorOption:
    """An option that has the parts of a run decided elsewhere; its value is the first argument of the executor."""

    annotation: Any
    executor: str  # the class, as `module:attribute`; `device` is given to it by name
    more: Mapping[str, Any]  # further arguments, with options of their own: name → annotation
    example: str  # how the option is given, for messages about the further ones


_CORES = {"cpus_per_worker": options.CpusPerWorker, "gpus_per_worker": options.GpusPerWorker}
_RAY = "negengine.engine.runs.ray:Ray"
EXECUTORS = {
    "ray": ExecutorOption(options.Ray, _RAY, {"workers": options.Workers, **_CORES}, "--ray local, or an address")
}
"""The options of executors by name. An executor is a class with `start`, in a file of its own, and an entry here."""


@dataclass(frozen=True)
class Setup:
    """The options that all run commands share, by name: they open models, and say where and how a run is made."""

    values: Mapping[str, Any]

    @property
    def opening(self) -> Opening:
        here = {} if self.executor is None else {"device": "cpu"}  # the workers' devices are the cluster's
        return Opening(**{**{name: self.values[name] for name in options_of(Opening)}, **here})

    @property
    def run(self) -> "RunOptions":
        return {
            "output": self.values["output"],
            "shard": self.values["shard"],
            "executor": self.executor,
            "replace": self.values["replace"],
            "verbose": self.values["verbose"],
            "again": run_line(),
            "went_on_from": shell_command(Command.given.get("run", [])) or None,
            "started": STARTED,
        }

    @cached_property
    def executor(self) -> "Executor | None":
        """Where parts run; None for the devices of this machine."""
        from ..basics.named import load

        found: Executor | None = None
        for name, option in EXECUTORS.items():
            given = {own: self.values[own] for own in option.more if self.values[own] is not None}
            if self.values[name] is not None:
                found = load(option.executor)(self.values[name], device=self.values["device"], **given)
            elif given:
                own, value = next(iter(given.items()))
                told = f"{flag(own)} {value:g}: this option belongs to {flag(name)}"
                raise InputError(f"{told}; add {option.example}")
        return found

    def refuse_all(self, why: str) -> None:
        """For a command that opens no model and writes no run folder."""
        for own in _COMMON:
            if self.values[own.name] != own.default and own.name != "verbose":
                raise InputError(f"{flag(own.name)} {self.values[own.name]}: {why}")


_ELSEWHERE = {
    name: own for first, option in EXECUTORS.items() for name, own in [(first, option.annotation), *option.more.items()]
}
_COMMON = [
    *options_of(Opening).values(),
    option_field("shard", options.Shard, None),
    *(option_field(name, annotation, None) for name, annotation in _ELSEWHERE.items()),
    option_field("output", options.RunFolder, None),
    option_field("replace", options.Replace, False),
    option_field("verbose", options.Verbose, False),
]
_called: list[Setup] = []  # of the command that runs: an interrupt is told outside of it
INCOMPLETE = 3  # the exit status where nothing is wrong, but not everything that a command names is finished
PRINTING = [option_field("form", options.FormatOption, TABLE), option_field("as_json", options.Json, False)]


_IN_FP32 = {
    "help": "fp32 and auto: the reference model decides; mixed is for select, score, gh22 and nli.",
    "metavar": "[auto|fp32]",  # a message of our own refuses mixed, and says why
}


def run_command(
    function: "Callable[..., Shown]",
    fields: Iterable[OptionField] | None = None,
    *,
    folder: str,
    mixes: bool = True,
    **more: Any,
) -> Command:
    """A command with the common options of runs, which are the function's first argument; it prints what it returns.

    `folder` is what the run folder is by default, in words, and `mixes` whether a low-precision model may decide.
    """
    own = options_of_function(function).values() if fields is None else fields
    told: dict[str, Any] = {"output": {"help": f"The run folder (default: {folder})."}}
    told |= {} if mixes else {"precision": _IN_FP32}
    common = [replace(field, option=replace(field.option, **told.get(field.name, {}))) for field in _COMMON]

    def run(*, form: str, as_json: bool, **values: Any) -> None:
        refuse_little_memory()
        _called.append(setup := Setup({own.name: values.pop(own.name) for own in _COMMON}))
        print_result(function(setup, **values), form, as_json, verbose=setup.values["verbose"])

    return Command(run, [*own, *common, *PRINTING], **{"told": function.__doc__, **more})


def table_command(function: "Callable[..., Shown]") -> Command:
    """A function whose parameters are options as a command with --format and --json; it prints what it returns."""

    def run(*, form: str, as_json: bool, **values: Any) -> None:
        print_result(function(**values), form, as_json)

    return Command(run, [*options_of_function(function).values(), *PRINTING], told=function.__doc__ or "")


def print_result(result: "Shown", form: str, as_json: bool, *, verbose: bool = False) -> None:
    """Print a result, in one line what was written where and what to do next, and end as the result says.

    Raises InputError if something is wrong with what is shown, and `Exit` if not everything is finished.
    """
    closing = result.closing()
    if as_json:
        document(result.document())
        if closing:
            say(closing)
    else:  # a terminal shows the main tables only, unless more is asked for
        tables = result.tables() if verbose else result.main_tables()
        shown = tables if form == TABLE else result.remarked()
        show(*shown, *result.remarks(), *filter(None, [closing]), form=form)
    result.refuse_faults()
    if not result.is_finished:
        raise click.exceptions.Exit(INCOMPLETE)


def command_line() -> str:
    """The command line of this process, quoted for a shell."""
    return shell_command(["negengine", *sys.argv[1:]])


def run_line() -> str:
    """The command line of a run command without --shard and --output, which belong to one folder."""
    left_out = {"shard", "output", "quiet", "log"}
    words = [word for name, own in Command.given.items() if name not in left_out for word in own]
    return shell_command([*Command.path.split(), *words])


def resuming_command() -> str:
    """The command that resumes this process's run, also outside of the job array that it belongs to."""
    from ..library.options import explicit

    if not _called:
        return command_line()
    given, is_suite = _called[-1].values, Command.path.endswith(" suite")
    try:
        return explicit(run_line(), given["shard"], given["output"], shares_folder=is_suite)
    except InputError:
        return command_line()
