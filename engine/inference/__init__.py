"""Token ids to decisions: exported models, devices, batches, precision."""
