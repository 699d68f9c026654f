"""Own stimuli: sentences of a user with target words, groups and clusters."""
