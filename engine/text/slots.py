"""The slots of a pattern, and where their words are.

This is the only list of slots. A slot that the code does not know is a text file of the lexicon (`slot_CITY.txt` makes
{CITY}), so another slot needs no code at all.
"""

import re

NAME, PROFESSION, VERB, PRONOUN, MASK = "NAME", "PROF", "ACT", "PRON", "MASK"

_COLUMNS = {NAME: "name", PROFESSION: "profession", VERB: "verb", PRONOUN: "pronoun"}

WORD_SLOTS = tuple(_COLUMNS)
"""The slots that every lexicon has words for."""

SLOTS = (*WORD_SLOTS, MASK)
"""The names that a pattern may have in braces with every lexicon."""

AT_MASK = "verb_at_mask"
"""The column of a table of triplets that holds the accepted forms of the verb at the mask, if they are not the verb."""

SLOT_NAME = re.compile(r"[A-Z][A-Z0-9]*")
"""The spelling of a further slot of a lexicon."""


def column(slot: str) -> str:
    """The column of a table of triplets that holds a slot's words: `name` for NAME, `city` for CITY."""
    return _COLUMNS.get(slot, slot.lower())
