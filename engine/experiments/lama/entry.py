"""Negated LAMA in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="lama",
    stages=("negengine.engine.experiments.lama.stage:Lama",),
    runs={"lama": "negengine.engine.experiments.lama.runs:LamaRun"},
    functions={"lama": "negengine.engine.experiments.lama.runs:lama"},
    commands=("negengine.engine.experiments.lama.commands:lama",),
    sections={"lama": "negengine.engine.experiments.lama.sections:sections"},
    references="negengine.engine.experiments.lama:references.toml",
    title="Negated and misprimed LAMA",
)
