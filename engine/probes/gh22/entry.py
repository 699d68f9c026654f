"""gh22 in the registry of probes."""

from ...library.registry import Probe

PROBE = Probe(name="gh22", stages=(), runs={}, functions={})
