"""The program: the commands of all experiments, and all other commands, each imported when it is called."""

import os
import sys
from functools import cache
from pathlib import Path

import click
from click.shell_completion import get_completion_class, shell_complete

from ..basics.errors import OF_THE_MACHINE, InputError, StoppedError, first_line, refuse_other_than_utf8, shortened
from ..basics.interrupts import was_interrupted
from ..basics.named import load
from ..experiments.registry import experiment, experiments, summary
from . import INTERRUPTED
from .console import discard_stdout, error_document, open_standard_streams, say, show
from .run_command import resuming_command

_SET_UP = {
    "export": "model_commands:export",
    "data": "model_commands:data",
    "patterns": "model_commands:patterns",
    "doctor": "doctor:doctor",
    "bench": "benchmark:bench",
}
_RUN = {"predict": "model_commands:predict", "suite": "results_commands:suite", "merge": "results_commands:merge"}
_LOOK = {
    "show": "results_commands:show_sentences",
    "view": "results_commands:view",
    "compare": "results_commands:compare",
    "report": "results_commands:report",
    "figures": "results_commands:figures",
}
_PAPER = {
    "cite": "results_commands:cite",
    "verify": "results_commands:verify",
    "reproduce": "results_commands:reproduce",
}
_OTHERS = _SET_UP | _RUN | _LOOK | _PAPER
"""Command → module of this package, and its function or its group; all but those of the experiments."""
_TRAINED = ("nli", "cues")  # experiments with a subcommand `train`


class AllCommands(click.Group):
    """All commands by name, each made when it is asked for: to import all experiments takes a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for names in self._headed().values() for name in names]

    @staticmethod
    def _headed() -> dict[str, list[str]]:
        """The names under their headings, in the order in which a user needs them."""
        asked = [name.replace("_", "-") for name in experiments()]
        return {"Set up": [*_SET_UP], "Run": [*asked, *_RUN], "Look at results": [*_LOOK], "For a paper": [*_PAPER]}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if (found := _command(cmd_name)) is None:
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=self.list_commands(ctx), ctx=ctx)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence of each; an experiment's is read from its source."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self._headed().items():
            rows = [(name.ljust(width), summary(name.replace("-", "_")) or _first_sentence(name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(rows)


def _first_sentence(name: str) -> str:
    found = _command(name)
    return found.get_short_help_str(1000) if found else ""


@cache
def _command(name: str) -> click.Command | None:
    if own := _OTHERS.get(name):
        found: click.Command = load(f"{__package__}.{own}")
        return found
    if (declared := experiment(name.replace("-", "_"))) is None:
        return None
    from .experiment_command import TRAININGS, experiment_command

    return experiment_command(declared, {"train": TRAININGS[name]} if name in TRAININGS else {})


def run() -> int:
    """Run the command of this process's arguments; returns the exit status."""
    if asked := os.environ.get(_COMPLETE):  # by a shell
        return shell_complete(app, {}, "negengine", _COMPLETE, asked)
    open_standard_streams()
    said = ""
    try:
        _refuse_wrong_words()
        with app.make_context("negengine", sys.argv[1:]) as context:
            app.invoke(context)
            return 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except StoppedError as error:
        said = _with_resumption(error.cause)
    except InputError as error:
        said = str(error)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            show(error.format_message())
            return 0
        told_by = getattr(error, "ctx", None)
        where = f"{told_by.command_path if told_by else 'negengine'} --help"
        said = error.format_message().removesuffix(".")
        said = f"{shortened(said)} (see `{where}`)"
    except (OSError, MemoryError, RuntimeError) as error:
        if not (said := _of_the_machine(error)):
            raise
    if was_interrupted():
        return INTERRUPTED
    say(f"negengine: {said}", is_error=True)
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
    if isinstance(error, BrokenPipeError):  # the reader of a help text has gone
        discard_stdout()
        raise SystemExit(0)
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


def _print_completion(ctx: click.Context, _option: click.Parameter, shell: str | None) -> None:
    if shell and (made := get_completion_class(shell)) is not None:
        show(made(app, {}, "negengine", _COMPLETE).source())
        ctx.exit()


_COMPLETE = "_NEGENGINE_COMPLETE"  # the variable of a shell that completes
_COMPLETION = (
    "Print what lets the Tab key complete commands, options and models: "
    'write eval "$(negengine --completion bash)" into ~/.bashrc.'
)
app = AllCommands(
    help="Test how language models understand negation, at the speed of the hardware.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
click.version_option(message="negengine %(version)s", package_name="negengine")(app)
_SHELLS = click.Choice(["bash", "zsh", "fish"])
click.option(
    "--completion", type=_SHELLS, is_eager=True, expose_value=False, callback=_print_completion, help=_COMPLETION
)(app)


def say_interrupted() -> None:
    """Say that the user has stopped the command."""
    say(f"negengine: {_with_resumption('interrupted')}", is_error=True)


def _with_resumption(why: str) -> str:
    """Why a command ended early; for a run also what it has kept, and which command resumes it."""
    named = {" ".join(sys.argv[1:2]), " ".join(sys.argv[1:3])}
    trainings = (f"{name} train" for name in _TRAINED)
    kept = not named.isdisjoint({"merge", "reproduce", "suite", *experiments(), *trainings})
    return f"{why}; finished parts are kept. To resume: {resuming_command()}" if kept else why
