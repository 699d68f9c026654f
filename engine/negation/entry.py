"""The Self-Contained Negation Test in the registry of probes."""

from ..library.registry import Probe

PROBE = Probe(
    name="self-contained-negation",
    stages=(
        "negengine.engine.negation.whole_words:WholeWordSelection",
        "negengine.engine.negation.several_scores:WholeWordScoring",
    ),
    runs={
        "select": "negengine.engine.negation.runs:SelectionRun",
        "score": "negengine.engine.negation.runs:ScoresRun",
    },
    functions={"select": "negengine.engine.negation.runs:select", "score": "negengine.engine.negation.runs:score"},
    sections={
        "select": "negengine.engine.negation.sections:selected",
        "score": "negengine.engine.negation.sections:scored",
    },
    commands=("negengine.engine.negation.commands:select", "negengine.engine.negation.commands:score"),
    references="negengine.engine.negation:references.toml",
    title="Self-Contained Negation Test",
)
