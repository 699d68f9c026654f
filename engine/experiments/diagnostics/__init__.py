"""The diagnostics of Ettinger (2020)."""
