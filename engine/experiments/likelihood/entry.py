"""Likelihoods of sentences in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="likelihood",
    stages=("negengine.engine.experiments.likelihood.stage:Likelihoods",),
    runs={"likelihood": "negengine.engine.experiments.likelihood.runs:LikelihoodRun"},
    functions={"likelihood": "negengine.engine.experiments.likelihood.runs:likelihood"},
    commands={"likelihood": "negengine.engine.experiments.likelihood.commands:likelihood"},
    sections={"likelihood": "negengine.engine.experiments.likelihood.sections:sections"},
    references="negengine.engine.experiments.likelihood:references.toml",
    title="Likelihoods of sentences",
)
