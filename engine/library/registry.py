"""The registry: what commands, merge, compare and the library must know about each probe.

A probe is a folder with an entry, a line in `BUNDLED`, and nothing else. Another package adds its own probes with
entry points of the group `negengine.probes`, each naming a `Probe`. An entry names its parts as `module:attribute`,
which are imported when they are needed: listing the probes imports none of them.
"""

import ast
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..basics.errors import InputError

if TYPE_CHECKING:
    from ..runs.stage import Publish, Stage
    from ..views import Section
    from .run import Run

GROUP = "negengine.probes"


@dataclass(frozen=True)
class Probe:
    """One experiment. Parts are named as `module:attribute`."""

    name: str  # such as `lama`
    stages: Sequence[str]  # in the order in which they run: subclasses of `Stage`
    # Stage → the subclass of `Run` that reads its results; only for stages that a user meets. A stage's name stands
    # here so that a run folder finds its probe without importing it.
    runs: Mapping[str, str]
    functions: Mapping[str, str]  # name in the library → the function
    commands: Mapping[str, str] = field(default_factory=dict)  # name → its function; empty if the experiment makes it
    # One of these commands → name of its subcommand → the function. `nli` with the subcommand `train` is called as
    # `negengine nli train`.
    subcommands: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Stage → what takes a finished run and returns the sections of its report; a run without one is reported with its
    # tables.
    sections: Mapping[str, str] = field(default_factory=dict)
    references: str = ""  # the papers to cite, as `package:file.toml`; see `negengine.engine.results.report.citation`
    title: str = ""  # what a report calls the experiment; its name by default
    # Stage → the class that declares it; `probe_of` takes references and title from there
    experiments: Mapping[str, str] = field(default_factory=dict)


def declared(
    name: str,
    experiment: str | Mapping[str, str],
    stages: Sequence[str] = (),
    subcommands: Mapping[str, str] | None = None,
) -> Probe:
    """All that follows from an experiment, given as `module:attribute`; nothing is imported.

    Where one goes on from the run of another, there are several: name → experiment, in the order in which they run.
    `stages` are given where they have classes of their own; `subcommands` are name → function.
    """
    own = {name: experiment} if isinstance(experiment, str) else experiment
    return Probe(
        name=name,
        stages=stages or tuple(own.values()),
        runs={step: f"{place}.results" for step, place in own.items()},
        functions={step: f"{place}.function()" for step, place in own.items()},
        commands={step.replace("_", "-"): "" for step in own},
        subcommands={name: subcommands} if subcommands else {},
        sections={step: f"{place}.sections" for step, place in own.items()},
        experiments=own,
    )


BUNDLED = (
    declared(
        "self-contained-negation",
        {
            "select": "negengine.engine.experiments.negation.negation:Select",
            "score": "negengine.engine.experiments.negation.negation:Score",
        },
        stages=(
            "negengine.engine.experiments.negation.select:Selection",
            "negengine.engine.experiments.negation.score:Scoring",
        ),
    ),
    declared(
        "gh22",
        "negengine.engine.experiments.gh22.gh22:Gh22",
        stages=(
            "negengine.engine.experiments.gh22.acts:Acts",
            "negengine.engine.experiments.gh22.repetitions:Repetitions",
        ),
    ),
    declared("lama", "negengine.engine.experiments.lama.lama:Lama"),
    declared("diagnostics", "negengine.engine.experiments.diagnostics.diagnostics:Diagnostics"),
    declared(
        "nli",
        "negengine.engine.experiments.nli.nli:Nli",
        stages=("negengine.engine.experiments.nli.nli_judgements:Judgements",),
        subcommands={"train": "negengine.engine.cli.train_commands:train_nli"},
    ),
    "negengine.engine.experiments.cues.entry:PROBE",
    declared(
        "probe",
        "negengine.engine.experiments.probe.probe:OwnSentences",
        stages=("negengine.engine.experiments.probe.probe_stage:OwnStimuli",),
    ),
    declared(
        "likelihood",
        "negengine.engine.experiments.likelihood.likelihood:Likelihood",
        stages=("negengine.engine.experiments.likelihood.likelihood_stage:Likelihoods",),
    ),
)
"""Experiments, and probes whose commands are of another form."""


def load(reference: str) -> Any:
    """Import what `module:attribute` names, where the attribute may be `Class.attribute` or `Class.method()`."""
    module, _, path = reference.partition(":")
    found = importlib.import_module(module)
    for attribute in path.removesuffix("()").split("."):
        found = getattr(found, attribute)
    return found() if path.endswith("()") else found  # type: ignore[operator]  # a class method


@dataclass(frozen=True)
class ProbeCommand:
    """A command of a probe: functions as `module:attribute`."""

    function: str  # empty if the experiment makes it
    experiment: str
    subcommands: Mapping[str, str]


@cache
def bundled() -> tuple[Probe, ...]:
    """The probes of this package."""
    return tuple(load(given) if isinstance(given, str) else given for given in BUNDLED)


@cache
def probes() -> tuple[Probe, ...]:
    """All probes: the bundled ones, then those of other packages by name.

    Raises:
        InputError: An entry point of another package is not a probe, or has the name of another probe.
    """
    found = {probe.name: probe for probe in bundled()}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        probe = entry.load()
        if isinstance(probe, type) and hasattr(probe, "function"):  # `Experiment` is built on this package
            probe = declared(str(vars(probe)["name"]), entry.value)
        if not isinstance(probe, Probe):
            raise InputError(f"the entry point {entry.name} of {GROUP} ({entry.value}) is not an Experiment")
        if probe.name in found:
            raise InputError(f"the entry point {entry.name} of {GROUP} ({entry.value}) has the name of another probe")
        found[probe.name] = probe
    return tuple(found.values())


def commands(among: Sequence[Probe]) -> dict[str, ProbeCommand]:
    """The commands of some probes by name."""
    found = {}
    for probe in among:
        for name, function in probe.commands.items():
            declares = probe.experiments.get(name.replace("-", "_"), "")
            found[name] = ProbeCommand(function, declares, probe.subcommands.get(name, {}))
    return found


def find_command(name: str) -> ProbeCommand | None:
    """A probe's command; None if no probe has it.

    Probes of other packages are looked for only if no bundled one has it: to list what is installed takes long.
    """
    return commands(bundled()).get(name) or commands(probes()).get(name)


def experiment_summary(command: str) -> str:
    """What an experiment is, in a sentence: the first line of its class, which is not imported; empty for others."""
    found = commands(probes()).get(command)
    if found is None or not found.experiment:
        return ""
    module, _, name = found.experiment.partition(":")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    docstrings = (ast.get_docstring(node) for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return (next(docstrings, "") or "").partition("\n")[0]


def resumable() -> set[str]:
    """The names of the commands that resume an interrupted run: functions that run stages, and subcommands."""
    inner = {
        f"{command} {name}" for probe in probes() for command, names in probe.subcommands.items() for name in names
    }
    return {name for probe in probes() for name in probe.functions} | inner


def stages() -> "dict[str, type[Stage[Any, Any]]]":
    """The stages of all probes by name."""
    found = (load(reference) for probe in probes() for reference in probe.stages)
    return {stage.name: stage for stage in found}


def publishers() -> "dict[str, Publish]":
    """Stage → how its parts become results, for all probes."""
    return {name: stage.publish for name, stage in stages().items()}


def run_class(stage: str) -> "type[Run] | None":
    """The class that reads the results of a stage; None if no probe has such results."""
    references = [probe.runs[stage] for probe in probes() if stage in probe.runs]
    return load(references[0]) if references else None


def sections_function(stage: str) -> "Callable[[Any], Sequence[Section]] | None":
    """The function that makes the sections of a report from a run of this stage; None if the probe has none."""
    references = [probe.sections[stage] for probe in probes() if stage in probe.sections]
    return load(references[0]) if references else None


def probe_of(stage: str) -> Probe | None:
    """The probe that a stage belongs to, by a stage that a user meets; None if there is none."""
    found = next((probe for probe in probes() if stage in probe.runs), None)
    if found is None or stage not in found.experiments:
        return found
    experiment = load(found.experiments[stage])
    return replace(found, references=experiment.references, title=experiment.title or found.name)


def library_function(name: str) -> Any:
    """The function of the library with this name; None if there is none."""
    references = [probe.functions[name] for probe in probes() if name in probe.functions]
    return load(references[0]) if references else None
