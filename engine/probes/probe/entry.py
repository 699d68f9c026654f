"""Own stimuli in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(
    name="probe",
    stages=("negengine.engine.probes.probe.stage:OwnStimuli",),
    runs={"probe": "negengine.engine.probes.probe.runs:ProbeRun"},
    functions={"probe": "negengine.engine.probes.probe.runs:probe"},
    commands=("negengine.engine.probes.probe.commands:probe",),
    sections={"probe": "negengine.engine.probes.probe.sections:sections"},
    references="negengine.engine.probes.probe:references.toml",
    title="Own stimuli",
)
