"""Shards: a run divided among jobs that know nothing of each other."""

import re
from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True)
class Shard:
    """One shard of a stage: every `count`-th part, from the `index`-th (1-based)."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read `I/N`.

        Raises:
            InputError: It is not of that form, or I is not one of 1 to N.
        """
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"--shard {text}: must be I/N with I from 1 to N, such as 1/4")
        return cls(int(found[1]), int(found[2]))

    def parts(self, n: int) -> range:
        """The numbers of the parts, of `n`, that are this shard's; none if there are more shards than parts."""
        return range(self.index - 1, n, self.count)

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole run."""
        return self.count == 1

    @property
    def suffix(self) -> str:
        """What the names of the shard's folder end in: nothing for the whole run."""
        return "" if self.is_whole else f"-{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
