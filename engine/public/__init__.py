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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from .engine.api.load import load
    from .engine.api.predict import predict
    from .engine.comparison.compare import Comparison, compare
    from .engine.comparison.groups import Groups, by_group
    from .engine.comparison.tidy import items
    from .engine.errors import InputError
    from .engine.library.model import Model
    from .engine.library.open import merge
    from .engine.library.open import open_run as open  # noqa: A004 - the library's `open`
    from .engine.library.run import Run
    from .engine.negation.runs import ScoresRun, SelectionRun, score, select
    from .engine.probes.cues.runs import cues
    from .engine.probes.diagnostics.runs import diagnostics
    from .engine.probes.gh22.runs import gh22
    from .engine.probes.lama.runs import lama
    from .engine.probes.likelihood.runs import likelihood
    from .engine.probes.nli.runs import nli
    from .engine.probes.probe.runs import probe
    from .engine.report.citation import Citation, cite
    from .engine.report.figures import figures
    from .engine.report.report import report
    from .engine.report.reproduction import Reproduction, reproduce
    from .engine.runs.executors import ThisProcess
    from .engine.runs.processes import Processes
    from .engine.runs.ray import Ray
    from .engine.suite.results import SuiteRun
    from .engine.suite.run import suite
    from .engine.tables.table import Table
    from .engine.verification.checks import Verification
    from .engine.verification.patterns import check_patterns
    from .engine.verification.verify import verify

_NAMES = {
    "Citation": "negengine.engine.report.citation:Citation",
    "Comparison": "negengine.engine.comparison.compare:Comparison",
    "Groups": "negengine.engine.comparison.groups:Groups",
    "InputError": "negengine.engine.errors:InputError",
    "Model": "negengine.engine.library.model:Model",
    "Processes": "negengine.engine.runs.processes:Processes",
    "Ray": "negengine.engine.runs.ray:Ray",
    "Reproduction": "negengine.engine.report.reproduction:Reproduction",
    "Run": "negengine.engine.library.run:Run",
    "ScoresRun": "negengine.engine.negation.runs:ScoresRun",
    "SelectionRun": "negengine.engine.negation.runs:SelectionRun",
    "SuiteRun": "negengine.engine.suite.results:SuiteRun",
    "Table": "negengine.engine.tables.table:Table",
    "ThisProcess": "negengine.engine.runs.executors:ThisProcess",
    "Verification": "negengine.engine.verification.checks:Verification",
    "by_group": "negengine.engine.comparison.groups:by_group",
    "check_patterns": "negengine.engine.verification.patterns:check_patterns",
    "cite": "negengine.engine.report.citation:cite",
    "compare": "negengine.engine.comparison.compare:compare",
    "cues": "negengine.engine.probes.cues.runs:cues",
    "diagnostics": "negengine.engine.probes.diagnostics.runs:diagnostics",
    "figures": "negengine.engine.report.figures:figures",
    "gh22": "negengine.engine.probes.gh22.runs:gh22",
    "items": "negengine.engine.comparison.tidy:items",
    "lama": "negengine.engine.probes.lama.runs:lama",
    "likelihood": "negengine.engine.probes.likelihood.runs:likelihood",
    "load": "negengine.engine.api.load:load",
    "merge": "negengine.engine.library.open:merge",
    "nli": "negengine.engine.probes.nli.runs:nli",
    "open": "negengine.engine.library.open:open_run",
    "predict": "negengine.engine.api.predict:predict",
    "probe": "negengine.engine.probes.probe.runs:probe",
    "report": "negengine.engine.report.report:report",
    "reproduce": "negengine.engine.report.reproduction:reproduce",
    "score": "negengine.engine.negation.runs:score",
    "select": "negengine.engine.negation.runs:select",
    "suite": "negengine.engine.suite.run:suite",
    "verify": "negengine.engine.verification.verify:verify",
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
