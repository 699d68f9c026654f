"""Long work in resumable parts, whatever it computes."""
