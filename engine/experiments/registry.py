"""The registry: which experiments there are. An experiment is a class, built on `Experiment`, and nothing else.

Another package names its own with entry points of the group `negengine.probes`. Classes are named as `module:Class`
and imported when they are needed: to list the experiments imports none of them.
"""

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..basics.errors import InputError
from ..basics.named import load

if TYPE_CHECKING:
    from ..library.run import Run
    from ..runs.stage import Stage

GROUP = "negengine.probes"
BUNDLED = {
    "select": "negengine.engine.experiments.negation.negation:Select",
    "score": "negengine.engine.experiments.negation.negation:Score",
    "gh22": "negengine.engine.experiments.gh22.gh22:Gh22",
    "lama": "negengine.engine.experiments.lama.lama:Lama",
    "diagnostics": "negengine.engine.experiments.diagnostics.diagnostics:Diagnostics",
    "nli": "negengine.engine.experiments.nli.nli:Nli",
    "cues": "negengine.engine.experiments.cues.cues:Cues",
    "probe": "negengine.engine.experiments.probe.probe:OwnSentences",
    "likelihood": "negengine.engine.experiments.likelihood.likelihood:Likelihood",
    "choice": "negengine.engine.experiments.choice.choice:Choice",
}


@cache
def experiments() -> Mapping[str, str]:
    """Name → class of all experiments: the bundled ones, then those of other packages by name."""
    found = dict(BUNDLED)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name in found:
            raise InputError(f"the entry point {entry.name} of {GROUP} ({entry.value}) has the name of another probe")
        found[entry.name] = entry.value
    return found


def experiment(name: str) -> Any:
    """The class of an experiment, a `type[Experiment]`; None if there is none of this name.

    Those of other packages are looked for only if no bundled one has the name: to list what is installed takes long.
    Raises InputError if an entry point names something else.
    """
    if (place := BUNDLED.get(name) or experiments().get(name)) is None:
        return None
    found = load(place)
    if not hasattr(found, "function") or getattr(found, "name", "") != name:  # `Experiment` is built on this package
        raise InputError(f"the entry point {name} of {GROUP} ({place}) is not an Experiment of this name")
    return found


def summary(name: str) -> str:
    """What an experiment is, in a sentence: the first line of its class, which is not imported; empty if unknown."""
    module, _, attribute = experiments().get(name, "").partition(":")
    spec = importlib.util.find_spec(module) if module else None
    if spec is None or spec.origin is None:
        return ""
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == attribute)
    return next((ast.get_docstring(node) or "" for node in classes), "").partition("\n")[0]


def library_function(name: str) -> Any:
    """The function of the library with this name; None if there is none."""
    found = experiment(name)
    return None if found is None else found.function()


def stages() -> "dict[str, type[Stage[Any, Any]]]":
    """The stages of all experiments by name."""
    all_of_them = (experiment(name) for name in experiments())
    return {stage.name: stage for own in all_of_them for stage in own.stages or (own,)}


def run_class(stage: str) -> "type[Run] | None":
    """The class that reads the results of a stage; None if a user does not meet it, or it is unknown here."""
    found = experiment(stage)
    return None if found is None else found.results
