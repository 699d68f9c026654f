"""nli in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(name="nli", stages=(), runs={}, functions={})
