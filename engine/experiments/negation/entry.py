"""The Self-Contained Negation Test in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="self-contained-negation",
    stages=(
        "negengine.engine.experiments.negation.select:Selection",
        "negengine.engine.experiments.negation.score:Scoring",
    ),
    runs={
        "select": "negengine.engine.experiments.negation.runs:SelectionRun",
        "score": "negengine.engine.experiments.negation.runs:ScoresRun",
    },
    functions={
        "select": "negengine.engine.experiments.negation.runs:select",
        "score": "negengine.engine.experiments.negation.runs:score",
    },
    sections={
        "select": "negengine.engine.experiments.negation.sections:selected",
        "score": "negengine.engine.experiments.negation.sections:scored",
    },
    commands={
        "select": "negengine.engine.cli.negation_commands:select",
        "score": "negengine.engine.cli.negation_commands:score",
    },
    references="negengine.engine.experiments.negation:references.toml",
    title="Self-Contained Negation Test",
)
