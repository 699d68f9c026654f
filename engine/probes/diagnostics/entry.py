"""The diagnostics of Ettinger (2020) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="diagnostics",
    stages=("negengine.engine.probes.diagnostics.stage:DiagnosticsStage",),
    runs={"diagnostics": "negengine.engine.probes.diagnostics.runs:DiagnosticsRun"},
    functions={"diagnostics": "negengine.engine.probes.diagnostics.runs:diagnostics"},
    commands=("negengine.engine.probes.diagnostics.commands:diagnostics",),
    sections={"diagnostics": "negengine.engine.probes.diagnostics.sections:sections"},
    references="negengine.engine.probes.diagnostics:references.toml",
    title="Diagnostics of Ettinger (2020)",
)
