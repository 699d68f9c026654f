"""Long work in parts that can be resumed."""
