"""An experiment is a declaration: what can be chosen, what is asked, what counts, what the tables say.

A subclass is a frozen dataclass whose fields are its options. From them follow the command and its help, the function
of the library with its docstring, and the settings in a suite. `Requested` brings the stage and the results.
"""

import inspect
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Unpack

from ..basics.choices import Task
from ..basics.errors import InputError
from ..basics.option import Option as Option  # noqa: PLC0414 - an experiment imports it from here
from ..basics.option import OptionField, check_options, options_of
from ..inference.exported import ExportedModel
from ..library.call import recorded, strict
from ..library.model import Model, ModelLike, open_model
from ..library.options import AllOptions, RunOptions, divided, execution, run_folder, shard_of
from ..library.run import Run, ShardRun, open_results
from ..library.shown import Shown
from ..requests.vocabulary import Vocabulary
from ..runs.loop import run_stage
from ..runs.masked_stages import MixedStage, needs_fp32
from ..runs.stage import Stage
from ..text.bundled import LEXICONS
from ..views import Section

PAIRS = Option("Use a random sample of N name–profession pairs (default: all).", metavar="N", minimum=1)
SEED = Option("Seed for all random choices.", metavar="N", minimum=0)
LEXICON = Option(
    "A bundled lexicon, or your own word lists (default: those of the patterns).",
    metavar="NAME|DIR",
    kind=str,
    is_file=True,
    words=tuple(LEXICONS),
)
RANKED = Option(
    "The tokens that are ranked: all tokens, all words, or those in a file with one word per line.",
    metavar="all|words|FILE",
    is_file=True,
    words=tuple(Vocabulary),
)
BOS = Option("Begin every text with the model's BOS token (causal models).")
DATA_FOLDER = Option(
    "Folder of the data (default: where `data get` put them).", metavar="PATH", kind=Path, is_file=True
)


class Experiment(ABC):
    """What is asked of a model; a subclass is a frozen dataclass whose fields are its options."""

    name: ClassVar[str]  # as a command, as a function, and in a run folder
    title: ClassVar[str] = ""  # what a report calls it; its name by default
    asks: ClassVar[str] = ""  # its question, as a report asks it
    references: ClassVar[str] = ""  # the papers to cite, as `package:file.toml`
    task: ClassVar[Task | None] = None  # what a model must be exported for; None for either kind of language model
    example: ClassVar[str] = ""  # of the command, for its help
    # what the command line says of the model; empty for any language model, `mini` by default
    model_help: ClassVar[str] = ""
    # where a run can do without a model: the option that names it, and what the option says by default
    model_option: ClassVar[str] = ""
    no_model: ClassVar[str] = ""
    goes_on_from: ClassVar[str] = ""  # the experiment whose finished run it needs, such as `select`
    reads: ClassVar[str] = ""  # the cached property that reads the data, where there are some
    is_main: ClassVar[bool] = False  # whether its run folders have a model's name alone
    mixes: ClassVar[bool] = False  # whether a low-precision model may decide what is certain
    stages: ClassVar[Sequence[type[Stage[Any, Any]]]] = ()  # in their order; none of an experiment of requests
    results: ClassVar[type[Run]]  # the class that reads a finished run

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def completed(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options by name with those that a file beside the data gives."""
        return given

    def call(self, model: ModelLike, **options: Unpack[AllOptions]) -> Run | ShardRun:
        """What the function of the library does; its parameters stand before the fields. `Score` has others."""
        opening, shared = divided(options)
        shard_of(shared)  # wrong options are refused before a model is looked for
        return self.run(open_model(model, task=self.task, look=self.look, **opening), shared)

    def look(self) -> None:
        """Look at the data before a model is exported for them; `InputError` if they are wrong."""
        if self.reads:
            getattr(self, self.reads)

    def stage(self, exported: ExportedModel) -> Stage[Any, Any]:
        """What is computed with a model; an `InputError` if an option or a file is wrong."""
        raise NotImplementedError

    def run(self, model: Model, options: RunOptions) -> Run | ShardRun:
        """Run the one stage, or its unfinished parts."""
        stage = self.stage(model.exported)
        if model.opening.is_mixed and not isinstance(stage, MixedStage):
            raise InputError(needs_fp32(stage.name))
        folder = run_folder(model, options, "" if self.is_main else stage.name)
        run_stage(stage, folder, execution(model, options))
        return open_results(self.results, folder, model, shard_of(options))

    def plan(self, model: Model, options: RunOptions) -> Shown:
        """What `run` would do; nothing is written. The command has --plan if a subclass says it."""
        raise NotImplementedError

    def without_model(self) -> Shown:
        raise NotImplementedError

    @classmethod
    @cache
    def function(cls) -> Callable[..., Any]:
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
        run.__module__, run.__doc__ = cls.__module__, _docstring(cls, fields)
        files = [name for name, field in fields.items() if field.option.is_file]
        words = [word for field in fields.values() for word in field.option.words]
        return strict(recorded(run, files=files, words=words, completed=cls.completed))

    @staticmethod
    def sections(run: Any) -> Sequence[Section]:
        return [Section("Results", tables=run.tables(), notes=run.remarks())]


def _docstring(experiment: type[Experiment], fields: dict[str, OptionField]) -> str:
    source = experiment.goes_on_from
    told = {"run": f"A finished run of `{source}`, or its folder."} if source else {}
    usual = "; the run's own by default" if source else ""
    told["model"] = f"From `load`, or the folder or name of an exported model{usual}."
    for name, field in fields.items():
        words = ", ".join(str(member.value) for member in field.choices or ())
        told[name] = f"{field.option.help}{f' One of {words}.' if words else ''}"
    told["**options"] = "See `RunOptions`, and `OpeningOptions` unless the model is from `load`."
    arguments = "\n".join(f"    {name}: {text}" for name, text in told.items())
    return (
        f"{inspect.cleandoc(experiment.__doc__ or '')}\n\nArgs:\n{arguments}\n\n"
        "Returns:\n    The finished run; a `ShardRun` if only a shard was asked for.\n\n"
        "Raises:\n    InputError: An option or a file is wrong, the run folder belongs to another run, or the disk is "
        "full."
    )
