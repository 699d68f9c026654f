"""Graph passes, in the order in which `negengine.export.build` runs them: simplify, fuse, hoist (with the head)."""
