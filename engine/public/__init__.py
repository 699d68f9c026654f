"""negengine: negation probes of language models, at the speed of the hardware.

    import negengine as ng

    model = ng.load("mini")
    run = ng.select(model, pairs=60)
    scores = ng.score(run)
    print(scores)

Every function is imported when it is used first, so `import negengine` is quick. Probes of other packages are functions
of this module, too.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# ONNX Runtime 1.31 writes a device id and events for upload under the user's cache, unless this is set before its first
# import. Every module of negengine, in whichever process, imports this one first; workers inherit the variable besides.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from .engine.api.load import load
    from .engine.api.predict import predict
    from .engine.errors import InputError
    from .engine.experiments.cues.runs import cues
    from .engine.experiments.diagnostics.runs import diagnostics
    from .engine.experiments.gh22.runs import gh22
    from .engine.experiments.lama.runs import lama
    from .engine.experiments.likelihood.runs import likelihood
    from .engine.experiments.negation.check_patterns import check_patterns
    from .engine.experiments.negation.runs import ScoresRun, SelectionRun, score, select
    from .engine.experiments.nli.runs import nli
    from .engine.experiments.probe.runs import probe
    from .engine.library.model import Model
    from .engine.library.open import merge
    from .engine.library.open import open_run as open  # noqa: A004 - the library's `open`
    from .engine.library.run import Run
    from .engine.results.comparison.compare import Comparison, compare
    from .engine.results.comparison.groups import Groups, by_group
    from .engine.results.comparison.runs import items
    from .engine.results.report.citation import Citation, cite
    from .engine.results.report.report import figures, report
    from .engine.results.report.reproduction import Reproduction, reproduce
    from .engine.results.verification.checks import Verification
    from .engine.results.verification.verify import verify
    from .engine.runs.executors import ThisProcess
    from .engine.runs.processes import Processes
    from .engine.runs.ray import Ray
    from .engine.suite.suite_run import SuiteRun, suite
    from .engine.views.table import Table

_NAMES = {
    "Citation": "negengine.engine.results.report.citation:Citation",
    "Comparison": "negengine.engine.results.comparison.compare:Comparison",
    "Groups": "negengine.engine.results.comparison.groups:Groups",
    "InputError": "negengine.engine.errors:InputError",
    "Model": "negengine.engine.library.model:Model",
    "Processes": "negengine.engine.runs.processes:Processes",
    "Ray": "negengine.engine.runs.ray:Ray",
    "Reproduction": "negengine.engine.results.report.reproduction:Reproduction",
    "Run": "negengine.engine.library.run:Run",
    "ScoresRun": "negengine.engine.experiments.negation.runs:ScoresRun",
    "SelectionRun": "negengine.engine.experiments.negation.runs:SelectionRun",
    "SuiteRun": "negengine.engine.suite.suite_run:SuiteRun",
    "Table": "negengine.engine.views.table:Table",
    "ThisProcess": "negengine.engine.runs.executors:ThisProcess",
    "Verification": "negengine.engine.results.verification.checks:Verification",
    "by_group": "negengine.engine.results.comparison.groups:by_group",
    "check_patterns": "negengine.engine.experiments.negation.check_patterns:check_patterns",
    "cite": "negengine.engine.results.report.citation:cite",
    "compare": "negengine.engine.results.comparison.compare:compare",
    "cues": "negengine.engine.experiments.cues.runs:cues",
    "diagnostics": "negengine.engine.experiments.diagnostics.runs:diagnostics",
    "figures": "negengine.engine.results.report.report:figures",
    "gh22": "negengine.engine.experiments.gh22.runs:gh22",
    "items": "negengine.engine.results.comparison.runs:items",
    "lama": "negengine.engine.experiments.lama.runs:lama",
    "likelihood": "negengine.engine.experiments.likelihood.runs:likelihood",
    "load": "negengine.engine.api.load:load",
    "merge": "negengine.engine.library.open:merge",
    "nli": "negengine.engine.experiments.nli.runs:nli",
    "open": "negengine.engine.library.open:open_run",
    "predict": "negengine.engine.api.predict:predict",
    "probe": "negengine.engine.experiments.probe.runs:probe",
    "report": "negengine.engine.results.report.report:report",
    "reproduce": "negengine.engine.results.report.reproduction:reproduce",
    "score": "negengine.engine.experiments.negation.runs:score",
    "select": "negengine.engine.experiments.negation.runs:select",
    "suite": "negengine.engine.suite.suite_run:suite",
    "verify": "negengine.engine.results.verification.verify:verify",
}

__all__ = sorted(_NAMES)  # noqa: PLE0605 - names that __getattr__ imports


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, _, attribute = _NAMES[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    if not name.startswith("_"):
        from .engine.library.registry import library_function  # noqa: PLC0415 - probes of other packages

        if (function := library_function(name)) is not None:
            return function
    raise AttributeError(f"module 'negengine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
