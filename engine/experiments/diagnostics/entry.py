"""The diagnostics of Ettinger (2020) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="diagnostics",
    stages=("negengine.engine.experiments.diagnostics.stage:DiagnosticsStage",),
    runs={"diagnostics": "negengine.engine.experiments.diagnostics.runs:DiagnosticsRun"},
    functions={"diagnostics": "negengine.engine.experiments.diagnostics.runs:diagnostics"},
    commands=("negengine.engine.experiments.diagnostics.commands:diagnostics",),
    sections={"diagnostics": "negengine.engine.experiments.diagnostics.sections:sections"},
    references="negengine.engine.experiments.diagnostics:references.toml",
    title="Diagnostics of Ettinger (2020)",
)
