"""Likelihoods of sentences in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="likelihood",
    stages=("negengine.engine.probes.likelihood.stage:Likelihoods",),
    runs={"likelihood": "negengine.engine.probes.likelihood.runs:LikelihoodRun"},
    functions={"likelihood": "negengine.engine.probes.likelihood.runs:likelihood"},
    commands=("negengine.engine.probes.likelihood.commands:likelihood",),
    sections={"likelihood": "negengine.engine.probes.likelihood.sections:sections"},
    references="negengine.engine.probes.likelihood:references.toml",
    title="Likelihoods of sentences",
)
