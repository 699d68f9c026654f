"""What a user chooses among. Quick to import, as `--help` shows it."""

from enum import StrEnum


class Dataset(StrEnum):
    """The data sets, in the order of the tables."""

    CPRAG = "CPRAG-102"
    ROLE = "ROLE-88"
    SIMP = "NEG-136-SIMP"
    NAT = "NEG-136-NAT"
