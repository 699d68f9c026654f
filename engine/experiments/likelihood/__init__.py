"""How probable are whole sentences? Likelihoods, pseudo-log-likelihoods and minimal pairs of a user's own texts."""
