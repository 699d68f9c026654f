"""`ng.cite`: what a paper needs to say about runs: methods, BibTeX, and the Responsible NLP checklist's facts (ACL)."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from ...basics.errors import InputError
from ...basics.numerals import with_minus
from ...basics.printable import counted
from ...basics.versions import source_address
from ...experiments.data_sets.sources import Source, sources
from ...experiments.registry import experiment
from ...inference.exported import REFERENCE
from ...library.call import files_in
from ...library.run import Run
from ...runs.record import StageRecord, read_run
from ...runs.stage import COLUMNS
from ...views.to_latex import latex
from ..finished import open_run
from .usage import Usage, usage

_ROOT = Path(__file__).resolve().parents[3]
_CITATION = "CITATION.cff"


@dataclass(frozen=True)
class Reference:
    """A paper, a data set or a program, as a table of a file of references has it."""

    key: str
    label: str  # as a text cites it: `Ettinger, 2020`; `Kassner and Schütze, 2020`; `Kletz et al., 2023`
    bibtex: str
    role: str = "model"  # `test`, `method`, `data`, `model` or `tool`
    dataset: str | None = None  # the data set or method that it describes, if it is one of several


def probe_references(reference: str) -> tuple[Reference, ...]:
    """The papers of a probe, from `package:file.toml`; none from an empty text."""
    if not reference:
        return ()
    package, _, name = reference.partition(":")
    content = tomllib.loads(files(package).joinpath(name).read_text("utf-8"))
    return tuple(Reference(key, **entry) for key, entry in content.items())


def model_references(family: str) -> tuple[Reference, ...]:
    """The papers of a model family; none where `models.toml` does not have it."""
    content = tomllib.loads(files(__package__).joinpath("models.toml").read_text("utf-8"))
    return tuple(Reference(key, **entry) for key, entry in content.get(family, {}).items())


@cache
def tool_reference() -> Reference:
    """The program itself, from CITATION.cff."""
    path = _ROOT / _CITATION  # of the checkout, or the copy that is installed with the package
    if not path.is_file():
        path = next(Path(own.locate()) for own in distribution("negengine").files or () if own.name == _CITATION)
    content = yaml.safe_load(path.read_text("utf-8"))
    authors = (entry.get("name") or f"{entry['given-names']} {entry['family-names']}" for entry in content["authors"])
    fields = {
        "title": latex(content["title"]),
        "author": " and ".join(f"{{{latex(name)}}}" for name in authors),
        "year": str(content.get("date-released", ""))[:4],
        "note": f"Software, version {content['version']}",
        "url": content.get("url") or source_address(),
        "doi": content.get("doi"),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return Reference("negengine", "negengine", "\n".join(["@misc{negengine,", *lines, "}"]), "tool")


@dataclass(frozen=True, eq=False)
class Citation:
    """What a paper needs to say about some runs.

    Attributes:
        methods: One paragraph for each run.
        references: Tool, tests, data, models; each once.
        facts: Fact → its value, in the order of the checklist.
    """

    methods: Sequence[str]
    references: Sequence[Reference]
    facts: dict[str, str]

    @property
    def bibtex(self) -> str:
        return "\n\n".join(reference.bibtex for reference in self.references) + "\n"

    @property
    def text(self) -> str:
        facts = "\n".join(f"{name}: {value}" for name, value in self.facts.items())
        methods = "\n\n".join(self.methods)
        return f"Methods\n\n{methods}\n\nFor the Responsible NLP checklist\n\n{facts}\n\nBibTeX\n\n{self.bibtex}"

    def document(self) -> dict[str, Any]:
        return {"methods": list(self.methods), "facts": self.facts, "bibtex": self.bibtex}

    def __str__(self) -> str:
        return self.text.rstrip("\n")


def cite(*runs: Run | str | Path) -> Citation:
    """What a paper needs to say about runs: methods, BibTeX, and facts for the Responsible NLP checklist.

    Args:
        runs: Finished runs, or their folders.

    Raises:
        InputError: No run is given, a folder is not a finished run, or a run lacks what is cited.
    """
    if not runs:
        raise InputError("no runs given; cite takes one or more run folders")
    found = [run if isinstance(run, Run) else open_run(run) for run in runs]
    stages, methods, references = [], [], [tool_reference()]
    for run in found:
        records = read_run(run.folder).stages
        names = list(records)[: list(records).index(run.stage) + 1] if experiment(run.stage) else [run.stage]
        stages.append([records[name] for name in names])
        test = next((paper.label for paper in _papers(run) if paper.role == "test"), "")
        read = [f"{said[0].upper()}{said[1:]}." for said in run.read_otherwise]
        methods.append(" ".join([_model(run), with_minus(run.methods(test)), *read, _inference(usage(stages[-1]))]))
        references += [*_papers(run), *model_references(str(_export(run).get("family", "")))]
    used = usage([stage for own in stages for stage in own])
    once = {reference.key: reference for reference in references}
    return Citation(methods, list(once.values()), _facts(found, stages, used))


def _export(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = run.record.metadata.get("export") or {}
    return found


def _papers(run: Run) -> tuple[Reference, ...]:
    own = experiment(run.stage)
    found = probe_references(own.references) if own else ()
    used = {None, *run.used, *(own.name for own in _data_sets(run))}
    return tuple(paper for paper in found if paper.dataset in used)


def _data_sets(run: Run) -> list[Source]:
    """The data sets that a run has read: its probe's where it has no argument, or the one with this name."""
    given = run.record.metadata.get("call", {}).get("arguments", {}).get("data")
    name = given.partition(":")[0] if isinstance(given, str) else None
    return [own for own in sources().values() if own.probe == run.stage and (given is None or own.name == name)]


def _model(run: Run) -> str:
    export = _export(run)
    papers = "; ".join(paper.label for paper in model_references(str(export.get("family", ""))))
    size = export.get("parameters") or 0
    many = f"{size / 1e6:.1f} million" if size >= 100_000 else f"{size:,}"
    details = [
        f"revision {_short(export['revision'])}" if export.get("revision") else "",
        f"{many} parameters" if size else "",
        f"architecture of {papers}" if papers else "",
    ]
    told = "; ".join(filter(None, details))
    return f"We tested {run.model_name}{f' ({told})' if told else ''}."


def _inference(used: Usage) -> str:
    """How the sentences were run, how long and on what."""
    version = " and ".join(used.packages.get("negengine", ()))
    commit = f", commit {' and '.join(map(_short, used.sources))}" if used.sources else ""
    runtime = next((name for name in ("onnxruntime-gpu", "onnxruntime") if name in used.packages), None)
    with_runtime = f" with ONNX Runtime {' and '.join(used.packages[runtime])}" if runtime else ""
    precision = ""
    if "mixed" in used.precisions:
        precision = (
            " A low-precision model decided where its margin was beyond a calibrated bound, and the fp32 model decided"
            " all other sentences; a random sample of the low-precision decisions was checked in fp32."
        )
    elif {*used.precisions} == {REFERENCE}:
        precision = " All numbers were computed in fp32."
    said = f"Sentences were run with negengine {version}{commit}{with_runtime}.{precision}"
    if not used.sessions:
        return said
    took = f"{used.hours:.1f} hours" if used.hours >= 1 else f"{used.hours * 60:.1f} minutes"
    ran = f"{counted(used.sentences, 'sentence')} ({counted(used.tokens, 'token')})"
    return f"{said} The models ran {ran} in {took} on {' and '.join(used.hardware)}."


def _facts(runs: Sequence[Run], stages: Sequence[Sequence[StageRecord]], used: Usage) -> dict[str, str]:
    exports = {run.model_name: _export(run) for run in runs}
    seeds = [own.identity.get("seed", own.metadata.get("seed")) for stage in stages for own in stage]
    calls = [run.record.metadata.get("call", {}).get("arguments", {}) for run in runs]
    named = [own for run in runs for own in _data_sets(run)]
    own_files = [Path(entry["path"]).name for arguments in calls for entry in files_in(arguments)]
    parameters = [f"{name} {found['parameters']:,}" for name, found in exports.items() if found.get("parameters")]
    made = [", ".join(map(" ".join, found.get("made from", {}).items())) for found in exports.values()]
    licences = [f"{name}: {_licence(name, found)}" for name, found in exports.items()]
    data_sets = [*(f"{own.title}, {own.repository} at {own.commit[:12]}" for own in named), *own_files]
    facts = {
        "Models": "; ".join(f"{name}, revision {found.get('revision', 'unknown')}" for name, found in exports.items()),
        "Licences of models": "; ".join(licences),
        "Data": "; ".join(dict.fromkeys(data_sets)),
        "Licences of data": "; ".join(dict.fromkeys(f"{own.name}: {own.licence}" for own in named)),
        "Licence of negengine": "Apache-2.0",
        "Parameters": "; ".join(parameters) or "not recorded",
        "Compute": _budget(used),
        "Infrastructure": "; ".join([*used.hardware, *used.systems]),
        "Settings": "; ".join(dict.fromkeys(_settings(run, own) for run, own in zip(runs, stages, strict=True))),
        "Batch": ", ".join(f"{number} tokens" for number in used.batch_tokens),
        "Precision": ", ".join(used.precisions),
        "Seeds": ", ".join(dict.fromkeys(str(seed) for seed in seeds if seed is not None)) or "no random choice",
        "Runs": f"{len(runs)}, each once: given the seed, nothing is random",
        "Packages": ", ".join(f"{name} {' and '.join(found)}" for name, found in used.packages.items()),
        "Models were exported with": "; ".join(dict.fromkeys(made)),
    }
    return {name: value for name, value in facts.items() if value}


def _licence(name: str, export: dict[str, Any]) -> str:
    if export.get("licence"):
        return str(export["licence"])
    is_local = str(export.get("revision", "")).startswith("sha256:")
    return "see the checkpoint" if is_local or not export else f"see https://huggingface.co/{name.partition('@')[0]}"


def _short(digest: str) -> str:
    """The first twelve digits of a commit or a digest, with what stands around them."""
    return re.sub(r"[0-9a-f]{40,}", lambda match: match[0][:12], digest)


def _budget(used: Usage) -> str:
    parts = [
        f"{used.gpu_hours:.3g} GPU hours" if used.gpu_hours else "",
        f"{used.core_hours:.3g} CPU core hours" if used.core_hours else "",
        f"{counted(used.sentences, 'sentence')}, {counted(used.tokens, 'token')}",
    ]
    return ", ".join(filter(None, parts))


def _settings(run: Run, stages: Sequence[StageRecord]) -> str:
    own = {key: value for stage in stages for key, value in stage.identity.items() if key not in {"model", COLUMNS}}
    told = {key: value for key, value in own.items() if "sha256" not in key and "per part" not in key}
    return f"{run.stage}: " + ", ".join(f"{key} {_value(value)}" for key, value in told.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "/".join(map(str, value))
    return "all" if value is None else str(value)
