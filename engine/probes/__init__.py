"""The probes of the other papers, on the same engine and the same run folders."""
