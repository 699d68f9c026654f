"""The probe in the registry of negengine."""

from negengine.engine.library.registry import Probe

PROBE = Probe(
    name="colours",
    stages=("colours.stage:Colours",),
    runs={"colours": "colours.runs:ColoursRun"},
    functions={"colours": "colours.runs:colours"},
    commands=("colours.commands:colours",),
)
