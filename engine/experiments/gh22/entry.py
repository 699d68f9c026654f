"""The test of Gubelmann & Handschuh (2022) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="gh22",
    stages=("negengine.engine.experiments.gh22.acts:Acts", "negengine.engine.experiments.gh22.repetitions:Repetitions"),
    runs={"gh22": "negengine.engine.experiments.gh22.runs:Gh22Run"},
    functions={"gh22": "negengine.engine.experiments.gh22.runs:gh22"},
    commands={"gh22": "negengine.engine.experiments.gh22.commands:gh22"},
    sections={"gh22": "negengine.engine.experiments.gh22.sections:sections"},
    references="negengine.engine.experiments.gh22:references.toml",
    title="Gubelmann and Handschuh (2022), replicated",
)
