"""Negation cues in texts (Hossain et al. 2020, section 4) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="cues",
    stages=("negengine.engine.experiments.cues.stage:CueStage",),
    runs={"cues": "negengine.engine.experiments.cues.runs:CuesRun"},
    functions={"cues": "negengine.engine.experiments.cues.runs:cues"},
    commands={"cues": "negengine.engine.experiments.cues.commands:cues"},
    subcommands={"cues": {"train": "negengine.engine.experiments.cues.train_commands:train_cues"}},
    sections={"cues": "negengine.engine.experiments.cues.sections:sections"},
    references="negengine.engine.experiments.cues:references.toml",
    title="Negation cues in texts",
)
