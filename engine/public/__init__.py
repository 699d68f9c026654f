"""negengine: negation probes of language models, at the speed of the hardware.

    import negengine as ng

    model = ng.load("mini")
    run = ng.select(model, pairs=60)
    scores = ng.score(run)
    print(scores)

Every function is imported when it is used first, so `import negengine` is quick. Probes of other packages are functions
of this module, too.
"""

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .engine.basics import named as _named

# Nothing is sent anywhere that nobody asked for, and freed memory is given back. Every module of negengine, in
# whichever process, imports this one before these libraries; workers inherit the variables besides. Ray and OpenVINO
# are told where they are imported.
for _name, _off in {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime 1.31 writes events for upload when it is imported
    "HF_HUB_DISABLE_TELEMETRY": "1",  # what runs here, in each request to the hub
    "DISABLE_SAFETENSORS_CONVERSION": "true",  # transformers asks the hub to convert weights that were pickled
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:100,muzzy_decay_ms:0",  # Polars would keep it
}.items():
    os.environ.setdefault(_name, _off)

_named.PLUGGED.update(
    {
        "export": "negengine.export.build:build",
        "check of an export": "negengine.export.check:check",
        "PyTorch": "negengine.export.reference:torch_reference",
        "rows of a table": "negengine.export.own_rows:table_rows",
        "what a cell says": "negengine.export.own_rows:told",
        "what a person sees": "negengine.export.own_rows:seen",
        "report": "negengine.engine.results.report.report:report",
        "tables in a terminal": "negengine.engine.views.to_table:to_terminal",
        "tables in a notebook": "negengine.engine.views.to_html:to_html",
    }
)

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from .engine.basics.errors import InputError
    from .engine.experiments.choice.choice import choice
    from .engine.experiments.cues.cues import cues
    from .engine.experiments.diagnostics.diagnostics import Diagnostics as _Diagnostics
    from .engine.experiments.gh22.gh22 import gh22
    from .engine.experiments.lama.lama import Lama as _Lama
    from .engine.experiments.likelihood.likelihood import likelihood
    from .engine.experiments.negation.check_patterns import check_patterns
    from .engine.experiments.negation.negation import score, select
    from .engine.experiments.negation.negation_runs import ScoresRun, SelectionRun
    from .engine.experiments.nli.nli import nli
    from .engine.experiments.probe.probe import probe
    from .engine.library.model import Model, load
    from .engine.library.predict import predict
    from .engine.library.run import Run
    from .engine.results.comparison.compare import Comparison, compare
    from .engine.results.comparison.groups import Groups, by_group
    from .engine.results.comparison.runs import items
    from .engine.results.finished import merge
    from .engine.results.finished import open_run as open  # noqa: A004 - the library's `open`
    from .engine.results.report.citation import Citation, cite
    from .engine.results.report.report import figures, report
    from .engine.results.report.reproduction import Reproduction, reproduce
    from .engine.results.suite.suite_run import SuiteRun, suite
    from .engine.results.verification.checks import Verification
    from .engine.results.verification.verify import verify
    from .engine.runs.executors import ThisProcess
    from .engine.runs.processes import Processes
    from .engine.runs.ray import Ray
    from .engine.views.table import Table

    diagnostics = _Diagnostics.function()
    lama = _Lama.function()


def _names() -> dict[str, str]:
    """Each name of the imports above → where it comes from, as `module:attribute`; so each stands once."""
    (block,) = (node for node in ast.parse(Path(__file__).read_text("utf-8")).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    found = {own.asname or own.name: f"{__name__}.{node.module}:{own.name}" for node in imports for own in node.names}
    return {name: place for name, place in found.items() if not name.startswith("_")}


_NAMES = _names()
_EXPERIMENTS = ("diagnostics", "lama")  # functions that are made from their experiments
__all__ = sorted([*_NAMES, *_EXPERIMENTS])  # noqa: PLE0605 - names that __getattr__ imports


def __getattr__(name: str) -> Any:
    from .engine.experiments.registry import library_function  # noqa: PLC0415
    from .engine.library.call import in_python  # noqa: PLC0415 - kept out of `import negengine`

    if name in _NAMES:
        found = _named.load(_NAMES[name])
        return found if isinstance(found, type) else in_python(found)
    if not name.startswith("_") and (function := library_function(name)) is not None:
        return in_python(function)
    raise AttributeError(f"module 'negengine' has no attribute {name!r}")


def __dir__() -> list[str]:
    from .engine.experiments.registry import experiments  # noqa: PLC0415 - those of other packages

    return sorted({*__all__, *experiments()})
