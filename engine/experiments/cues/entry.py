"""Negation cues in texts (Hossain et al. 2020, section 4) in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="cues",
    stages=("negengine.engine.experiments.cues.cues:CueStage",),
    runs={"cues": "negengine.engine.experiments.cues.cues:CuesRun"},
    functions={"cues": "negengine.engine.experiments.cues.cues:cues"},
    commands={"cues": "negengine.engine.cli.cues_commands:cues"},
    subcommands={"cues": {"train": "negengine.engine.cli.train_commands:train_cues"}},
    sections={"cues": "negengine.engine.experiments.cues.cue_views:sections"},
    references="negengine.engine.experiments.cues:references.toml",
    title="Negation cues in texts",
)
