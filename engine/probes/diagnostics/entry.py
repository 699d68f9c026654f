"""diagnostics in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(name="diagnostics", stages=(), runs={}, functions={})
