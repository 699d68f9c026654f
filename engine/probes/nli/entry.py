"""Natural language inference with negation (Hossain et al. 2020) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="nli",
    stages=("negengine.engine.probes.nli.judgements:Judgements",),
    runs={"nli": "negengine.engine.probes.nli.runs:NliRun"},
    functions={"nli": "negengine.engine.probes.nli.runs:nli"},
    commands=("negengine.engine.probes.nli.commands:nli",),
    subcommands={"nli": {"train": "negengine.engine.probes.nli.train_commands:train_nli"}},
    sections={"nli": "negengine.engine.probes.nli.sections:sections"},
    references="negengine.engine.probes.nli:references.toml",
    title="Natural language inference with negation",
)
