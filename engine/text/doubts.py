"""What of the texts and labels of a user's table may not be meant: it is told with its first row, and stays."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from ..basics.printable import counted
from .table import Rows
from .table_text import location

LOOKS_MISSING = (
    *("None", "none", "NONE", "null", "NULL", "Null", "(null)", "<null>", "nil", "NIL", "nan", "NAN", "-nan", "-NaN"),
    *("N/A", "n/a", "na", "n.a.", "N.A.", "#NULL!", "#NA", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    *("missing", "undefined", "-", "–", "—", "?", "."),
)
"""What can be a word or a name, and is told where it stands."""
_READ = "which a model reads, too; remove it if it is not a part of the text"
_ODD = {
    r"^[*?#%]+\s*\pL": f"In {{}}, a text begins with a mark such as *, {_READ}",
    r"^'.*'$": f"In {{}}, a text stands in single quotes, {_READ}",
    r"^[Ġ▁]\pL": f"In {{}}, a text begins with a tokenizer's own sign for a space, {_READ}",
    r"(?i)</?(p|b|i|u|em|strong|span|div|br|su[bp]|font|h[1-6])(\s[^<>]*)?/?>|&(#\w+|nbsp|amp|quot|apos|lt|gt);|"
    r"\*\*\pL|\\[a-z]": f"In {{}}, a text holds markup such as <b>, &amp; or \\n, {_READ}",
    "[ÃÐÑ][\u00a0-\u00bfŸ„–œ€]|â€|Â[\u00a0-\u00bf]|\ufffd": "In {}, a text holds signs such as Ã¼ or \ufffd, which "
    "letters become where a file is read in another encoding than its own; correct them if it is so",
    r"__|(^|\s)_(\s|[.,;:!?]|$)|\[[Mm]ask\]|<M(ask|ASK)>": (
        f"In {{}}, a text holds a blank such as ___ or [mask], {_READ}"
    ),
}
"""Pattern of a text that may have more than its author means → what is told of its rows."""
_RARELY_ODD = {r"[\pL\pN]$": "In {}, a text ends without a full stop or the like, unlike the others; is it a title?"}
"""The same, where few texts of a column are so."""
_RARE = 20  # what one of so many texts does, or fewer


@dataclass(eq=False)
class Doubts:
    """What is told of the rows of a table, which are seen part by part."""

    texts: Sequence[str]  # columns whose texts a model reads
    others: Sequence[str]  # further ones, such as labels
    _n: int = 0  # rows
    _found: Counter[tuple[str, str]] = field(default_factory=Counter)  # column and what is told of it → rows
    _first: dict[tuple[str, str], str] = field(default_factory=dict)  # the same → the place of the first row

    def see(self, file: str, rows: Rows) -> None:
        """Take in some rows of a file, as they stand there."""
        self._n += len(rows.written)
        for name in dict.fromkeys((*self.texts, *self.others)):
            text = rows.written[name].cast(pl.String).str.strip_chars()
            for word in text.filter(text.is_in(LOOKS_MISSING)).unique(maintain_order=True):
                said = f"{word} stands in {{}} and counts as a value; is it one? Else leave the cell empty"
                self._count(file, rows, (name, said), text == word)
            for pattern, said in (_ODD | _RARELY_ODD if name in self.texts else {}).items():
                self._count(file, rows, (name, said), text.str.contains(pattern))

    def _count(self, file: str, rows: Rows, doubt: tuple[str, str], is_so: pl.Series) -> None:
        if is_so.any():
            self._found[doubt] += int(is_so.sum())
            self._first.setdefault(doubt, location(file, *rows.places.filter(is_so).row(0)))

    def told(self) -> list[str]:
        return [
            f"{said.format(counted(n, 'row') + ' of ' + name)} ({self._first[name, said]})"
            for (name, said), n in self._found.items()
            if said not in _RARELY_ODD.values() or n * _RARE <= self._n
        ]
