"""Own stimuli in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="probe",
    stages=("negengine.engine.experiments.probe.stage:OwnStimuli",),
    runs={"probe": "negengine.engine.experiments.probe.runs:ProbeRun"},
    functions={"probe": "negengine.engine.experiments.probe.runs:probe"},
    commands={"probe": "negengine.engine.experiments.probe.commands:probe"},
    sections={"probe": "negengine.engine.experiments.probe.sections:sections"},
    references="negengine.engine.experiments.probe:references.toml",
    title="Own stimuli",
)
