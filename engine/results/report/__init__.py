"""From a run to the paper: reports and figures."""
