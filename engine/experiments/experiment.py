"""An experiment is a declaration: what can be chosen, what is asked, what counts, what the tables say.

    @dataclass(frozen=True, eq=False)
    class Birds(Clozes):
        name = "birds"
        metrics = {"accuracy": pl.col("rank") == 1}
        seed: Annotated[int, Option("Seed for all random choices.", minimum=0)] = 0

        def clozes(self): ...

Its fields are its options. From them follow the command and its help, the function of the library with its docstring,
and the settings in a suite. `Clozes` and `Asked` (in `ask`) bring the stage and the results; another experiment names
a stage and a class of results of its own.
"""

import dataclasses
import inspect
import typing
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Unpack, cast

from ..basics.choices import Task
from ..basics.errors import InputError
from ..inference.exported import ExportedModel
from ..library.call import recorded
from ..library.model import Model, ModelLike, open_model
from ..library.options import RunOptions, shard_of
from ..library.run import Run, ShardRun
from ..library.shown import Shown
from ..runs.stage import Stage
from ..text.bundled import bundled_lexicons
from ..views import Section
from .finished_run import run_probe


@dataclass(frozen=True)
class Option:
    """How a person gives the value of a field: the annotation of a field holds one."""

    help: str  # a sentence for the command line and for the docstring
    metavar: str | None = None  # what stands for the value on the command line
    kind: Any = None  # the type on the command line, where it is another one than in Python: `list[Corpus]`
    is_file: bool = False  # whether the value names files or folders, whose digests are recorded
    words: Sequence[str] = ()  # what such a value can be instead, such as the name of a bundled file
    minimum: float | None = None
    maximum: float | None = None
    shown: str | None = None  # the default on the command line, where a text stands for the value
    read: Callable[[Any], Any] | None = None  # from the text on the command line to the value


PAIRS = Option("Use a random sample of N [NAME, PROF] pairs (default: all).", metavar="N", minimum=1)
SEED = Option("Seed for all random choices.", metavar="N", minimum=0)
LEXICON = Option(
    "A bundled lexicon, or your own word lists (default: those of the patterns).",
    metavar="NAME|DIR",
    kind=str,
    is_file=True,
    words=bundled_lexicons(),
)
DATA_FOLDER = Option(
    "Folder of the data (default: where `data get` put them).", metavar="PATH", kind=Path, is_file=True
)


def several(given: str | Sequence[Any]) -> list[Any]:
    """The values of an option that takes one word or several."""
    return [given] if isinstance(given, str) else list(given)


class Experiment(ABC):
    """What is asked of a model; a subclass is a frozen dataclass whose fields are its options."""

    name: ClassVar[str]  # as a command, as a function, and in a run folder
    title: ClassVar[str] = ""  # what a report calls it; its name by default
    references: ClassVar[str] = ""  # the papers to cite, as `package:file.toml`
    task: ClassVar[Task | None] = None  # what a model must be exported for; None for either kind of language model
    example: ClassVar[str] = ""  # of the command, for its help
    # what the command line says of the model; empty for any language model, `mini` by default
    model_help: ClassVar[str] = ""
    goes_on_from: ClassVar[str] = ""  # what a run holds that it goes on from, such as a selection
    has_plan: ClassVar[bool] = False  # whether `plan` says what a run would do
    results: ClassVar[type[Run]]  # the class that reads a finished run

    def call(self, model: ModelLike, **options: Unpack[RunOptions]) -> Run | ShardRun:
        """What the function of the library does; its parameters stand before the fields of the experiment.

        One that goes on from a finished run has other parameters, of which the first one is `run`: see `Score`.
        """
        shard_of(options)  # wrong options are refused before a model is looked for
        return self.run(open_model(model, task=self.task), options)

    def stage(self, exported: ExportedModel) -> Stage[Any, Any]:
        """What is computed with a model; an `InputError` if an option or a file is wrong."""
        raise NotImplementedError(f"{self.name} has a `call` of its own")

    def run(self, model: Model, options: RunOptions) -> Run | ShardRun:
        """Run the stage, or its unfinished parts."""
        return run_probe(self.stage(model.exported), self.results, model, options)

    def plan(self, model: Model, options: RunOptions) -> Shown:  # noqa: ARG002 - where `has_plan` says so
        """What `run` would do; nothing is written."""
        raise InputError(f"{self.name} has no plan")

    @classmethod
    @cache
    def function(cls) -> Callable[..., Any]:
        """The function of the library: `ng.NAME(model, OPTIONS, RUN OPTIONS)`."""
        fields, kind = options_of(cls), inspect.Parameter
        first, *others, last = list(inspect.signature(cls.call).parameters.values())[1:]
        parameters = [first]
        for name, field in fields.items():
            how = kind.POSITIONAL_OR_KEYWORD if field.required else kind.KEYWORD_ONLY
            parameters.append(kind(name, how, default=field.default_or(kind.empty), annotation=field.type))
        parameters += [*others, last]
        signature = inspect.Signature(parameters, return_annotation=cls.results | ShardRun)

        def run(*args: Any, **kwargs: Any) -> Run | ShardRun:
            given = signature.bind(*args, **kwargs).arguments
            options = given.pop(last.name, {})
            experiment = cls(**{name: given.pop(name) for name in fields if name in given})
            return experiment.call(given.pop(first.name), **given, **options)

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": signature.return_annotation}
        run.__name__ = run.__qualname__ = cls.name
        run.__module__, run.__doc__ = cls.__module__, _docstring(cls, [one.name for one in (first, *others)], fields)
        files = [name for name, field in fields.items() if field.option.is_file]
        words = [word for field in fields.values() for word in field.option.words]
        return recorded(files=files, words=words)(run)

    @staticmethod
    def sections(run: Any) -> Sequence[Section]:
        """What a report says of a run."""
        return [Section("Results", tables=run.tables(), notes=run.remarks())]


@dataclass(frozen=True)
class OptionField:
    """A field of an experiment that a person gives."""

    name: str
    type: Any  # in Python
    option: Option
    default: Any  # `dataclasses.MISSING` if it must be given

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def default_or(self, missing: Any) -> Any:
        return missing if self.required else self.default

    def from_command(self, value: Any) -> Any:
        if value is None:
            return self.default_or(None)
        return value if self.option.read is None else self.option.read(value)

    @property
    def shown_default(self) -> Any:
        """None where the help says in words what it is."""
        if self.option.shown is not None:
            return self.option.shown
        return self.default if isinstance(self.default, str | int | float) else None

    @property
    def command_type(self) -> Any:
        """Without what only Python can give."""
        kind = self.option.kind or self.type
        return kind | None if not self.required and self.shown_default is None else kind


@cache
def options_of(experiment: type[Experiment]) -> dict[str, OptionField]:
    """The options of an experiment by name: the fields with an `Option`."""
    hints = typing.get_type_hints(experiment, include_extras=True)
    found = {}
    for field in dataclasses.fields(cast("Any", experiment)):
        own = [one for one in getattr(hints[field.name], "__metadata__", ()) if isinstance(one, Option)]
        if own:
            found[field.name] = OptionField(field.name, hints[field.name].__origin__, own[0], field.default)
    return found


_TOLD = {
    "run": "A finished {}, or its folder.",
    "model": "From `load`, or the folder or name of an exported model{}.",
    "device": "As for `load`, like the next three; used if the model has to be found.",
    **dict.fromkeys(("precision", "batch_tokens", "threads"), "As for `load`."),
}


def _docstring(experiment: type[Experiment], first: Sequence[str], fields: dict[str, OptionField]) -> str:
    """The docstring of the library function, in the form of all others."""
    told = {name: _TOLD[name] for name in first}
    source = experiment.goes_on_from
    if source:
        told["run"] = told["run"].format(source)
    told["model"] = told["model"].format("; the run's own by default" if source else "")
    for name, field in fields.items():
        kind = field.option.kind
        words = ", ".join(str(member.value) for one in _flat(kind) if _is_enum(one) for member in one)
        told[name] = f"{field.option.help}{f' One of {words}.' if words else ''}"
    told["**options"] = "See `RunOptions`."
    arguments = "\n".join(f"    {name}: {text}" for name, text in told.items())
    return (
        f"{inspect.cleandoc(experiment.__doc__ or '')}\n\nArgs:\n{arguments}\n\n"
        "Returns:\n    The finished run; a `ShardRun` if only a shard was asked for.\n\n"
        "Raises:\n    InputError: An option or a file is wrong, the run folder belongs to another run, or the disk is "
        "full."
    )


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _flat(annotation: Any) -> list[Any]:
    return [annotation, *(one for own in typing.get_args(annotation) for one in _flat(own))]
