"""Negation cues in texts (Hossain et al. 2020, section 4) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="cues",
    stages=("negengine.engine.probes.cues.stage:CueStage",),
    runs={"cues": "negengine.engine.probes.cues.runs:CuesRun"},
    functions={"cues": "negengine.engine.probes.cues.runs:cues"},
    commands=("negengine.engine.probes.cues.commands:cues",),
    subcommands={"cues": {"train": "negengine.engine.probes.cues.train_commands:train_cues"}},
    sections={"cues": "negengine.engine.probes.cues.sections:sections"},
    references="negengine.engine.probes.cues:references.toml",
    title="Negation cues in texts",
)
