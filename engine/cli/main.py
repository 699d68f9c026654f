"""The program: the commands of all experiments, and all other commands, each imported when it is called."""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..basics.errors import OF_THE_MACHINE, InputError, StoppedError, first_line, refuse_other_than_utf8, shortened
from ..basics.named import load
from ..experiments.registry import experiment, experiments, summary
from .console import error_document, open_standard_streams, say, show
from .program import Commands, Program, as_command
from .run_command import resuming_command

if TYPE_CHECKING:
    from typer import _click

_FIRST = {"export": "model_commands:export"}
_LAST = {
    "suite": "results_commands:suite",
    "merge": "results_commands:merge",
    "compare": "results_commands:compare",
    "predict": "model_commands:predict",
    "report": "results_commands:report",
    "figures": "results_commands:figures",
    "show": "results_commands:show_sentences",
    "view": "results_commands:view",
    "bench": "benchmark:bench",
    "verify": "results_commands:verify",
    "cite": "results_commands:cite",
    "reproduce": "results_commands:reproduce",
    "doctor": "doctor:doctor",
    "data": "model_commands:data_app",
    "patterns": "model_commands:patterns_app",
}
"""Command → module of this package, and its function or its group. The experiments' commands stand between the two."""
_TRAININGS = {"nli": "train_nli", "cues": "train_cues"}
"""Experiment → the function of its subcommand `train`."""


class AllCommands(Commands):
    """All commands by name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _ByName()  # type: ignore[assignment]  # nothing is added to them

    def summary(self, ctx: "_click.Context", name: str) -> str:
        """An experiment's is read from its source: to import all experiments takes a second."""
        return summary(name.replace("-", "_")) or super().summary(ctx, name)


class _ByName(Mapping[str, "_click.Command"]):
    """Builds the commands that are asked for: to build all would take a tenth of the time of a short command."""

    def __getitem__(self, name: str) -> "_click.Command":
        if (found := _command(name)) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter([*_FIRST, *(name.replace("_", "-") for name in experiments()), *_LAST])

    def __len__(self) -> int:
        return len(list(iter(self)))


@cache
def _command(name: str) -> "_click.Command | None":
    if own := (_FIRST | _LAST).get(name):
        return as_command(name, load(f"{__package__}.{own}"))
    if (found := experiment(name.replace("-", "_"))) is None:
        return None
    from .experiment_command import experiment_command

    inner = {"train": load(f"{__package__}.train_commands:{_TRAININGS[name]}")} if name in _TRAININGS else {}
    return as_command(name, experiment_command(found), inner)


app = Program(
    name="negengine",
    cls=AllCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def run() -> int:
    """Run the command of this process's arguments; returns the exit status."""
    open_standard_streams()
    said = ""
    try:
        _refuse_wrong_words()
        return app(standalone_mode=False, prog_name="negengine") or 0  # Typer turns an interrupt into status 130
    except StoppedError as error:
        said = _with_resumption(error.cause)
    except InputError as error:
        said = str(error)
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # Typer does not export it
            show(error.format_message())
            return 0
        context = getattr(error, "ctx", None)
        where = f"{context.command_path if context else 'negengine'} --help"
        said = error.format_message().replace("Value error, ", "").removesuffix(".")  # the prefix of a library
        if near := getattr(error, "possibilities", None):
            said = f"{getattr(error, 'message', '').removesuffix('.')}. Did you mean {' or '.join(sorted(near))}?"
        said = f"{shortened(said)} (see `{where}`)"
    except (OSError, MemoryError, RuntimeError) as error:
        if not (said := _of_the_machine(error)):
            raise
    say(f"negengine: {said}")
    if "--json" in sys.argv:
        error_document(said)
    return 2


def _refuse_wrong_words() -> None:
    """Refuse what would end in a traceback later: arguments that are not UTF-8, a variable at which Polars panics."""
    refuse_other_than_utf8(sys.argv[1:])
    threads = os.environ.get("POLARS_MAX_THREADS", "1")
    if not threads.strip("0").isdecimal():
        raise InputError(f"POLARS_MAX_THREADS={threads}: give a number from 1, or unset it")


def _of_the_machine(error: Exception) -> str:
    """What an error says that comes from the machine, and not from this program; empty for others."""
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return f"{first_line(error)}: the system gives no more memory or threads; raise `ulimit -v` and `ulimit -u`"
    if not isinstance(error, OSError):
        return ""
    try:
        Path.cwd()
    except OSError:
        return "the working directory was removed: go to another one with `cd`"
    if error.errno not in OF_THE_MACHINE:
        return ""
    return shortened(f"{error.filename or 'the system'}: {error.strerror}; try again once the cause is removed")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        show(f"negengine {version('negengine')}")
        raise typer.Exit


@app.callback()
def negengine(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Negation probes of language models, at the speed of the hardware."""


def say_interrupted() -> None:
    """Say that the user has stopped the command."""
    say(f"negengine: {_with_resumption('interrupted')}")


def _with_resumption(why: str) -> str:
    """Why a command ended early; for a run also what it has kept, and which command resumes it."""
    named = {" ".join(sys.argv[1:2]), " ".join(sys.argv[1:3])}
    trainings = (f"{name} train" for name in _TRAININGS)
    kept = not named.isdisjoint({"merge", "reproduce", "suite", *experiments(), *trainings})
    return f"{why}; finished parts are kept. To resume: {resuming_command()}" if kept else why
