"""`negengine view`: every item of some runs on a local page."""
