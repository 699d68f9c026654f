"""What a user chooses among. Quick to import, as `--help` shows it."""

from enum import StrEnum


class Corpus(StrEnum):
    """Where facts come from, in the order of the tables."""

    GOOGLE_RE = "GoogleRE"
    T_REX = "TREx"
    CONCEPT_NET = "ConceptNet"
    SQUAD = "SQuAD"
