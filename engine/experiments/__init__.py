"""The other papers' experiments, one folder each."""
