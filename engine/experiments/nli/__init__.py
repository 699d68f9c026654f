"""Natural language inference with negation (Hossain and others 2020)."""
