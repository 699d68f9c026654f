"""The slots of a pattern: which there are, and where their words stand.

This is the only list of slots. A slot that the code does not know is a text file of the lexicon (`slot_CITY.txt` makes
{CITY}), so another slot needs no code at all.
"""

import re

NAME, PROFESSION, VERB, PRONOUN, MASK = "NAME", "PROF", "ACT", "PRON", "MASK"

_COLUMNS = {NAME: "name", PROFESSION: "profession", VERB: "verb", PRONOUN: "pronoun"}

WORD_SLOTS = tuple(_COLUMNS)
"""The slots that every lexicon has words for."""

SLOTS = (*WORD_SLOTS, MASK)
"""What may stand in the braces of a pattern, whatever the lexicon."""

SLOT_NAME = re.compile(r"[A-Z][A-Z0-9]*")
"""How a slot of a lexicon's own is spelled."""


def column(slot: str) -> str:
    """The column of a table of triplets that holds a slot's words: `name` for NAME, `city` for CITY."""
    return _COLUMNS.get(slot, slot.lower())
