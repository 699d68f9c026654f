"""`negengine verify`: what a run or a model holds, compared with what it should hold."""
