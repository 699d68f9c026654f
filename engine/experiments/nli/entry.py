"""Natural language inference with negation (Hossain et al. 2020) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="nli",
    stages=("negengine.engine.experiments.nli.judgements:Judgements",),
    runs={"nli": "negengine.engine.experiments.nli.runs:NliRun"},
    functions={"nli": "negengine.engine.experiments.nli.runs:nli"},
    commands={"nli": "negengine.engine.experiments.nli.commands:nli"},
    subcommands={"nli": {"train": "negengine.engine.experiments.nli.train_commands:train_nli"}},
    sections={"nli": "negengine.engine.experiments.nli.sections:sections"},
    references="negengine.engine.experiments.nli:references.toml",
    title="Natural language inference with negation",
)
