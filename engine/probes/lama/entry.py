"""Negated LAMA in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="lama",
    stages=("negengine.engine.probes.lama.stage:Lama",),
    runs={"lama": "negengine.engine.probes.lama.runs:LamaRun"},
    functions={"lama": "negengine.engine.probes.lama.runs:lama"},
    commands=("negengine.engine.probes.lama.commands:lama",),
    sections={"lama": "negengine.engine.probes.lama.sections:sections"},
    references="negengine.engine.probes.lama:references.toml",
    title="Negated and misprimed LAMA",
)
