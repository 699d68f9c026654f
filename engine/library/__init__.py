"""What all run functions share: a model and how it is found or exported, options, a run with its tables, registry."""
