"""Results that have tables: `print` shows them as text, a notebook as HTML, a command in any format."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from ..basics.choices import TABLE
from ..views import Table
from ..views.formats import render
from ..views.to_html import to_html


class Shown:
    """Anything with tables."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """In the order in which they are shown."""

    def main_tables(self) -> list[Table]:
        """The tables that a terminal shows where nobody asks for more; all by default."""
        return self.tables()

    def remarks(self) -> list[str]:
        """What to read below the tables, one line each."""
        return []

    def closing(self) -> str:
        """What was written where, and what to do next, in one line; empty where nothing was written."""
        return ""

    @abstractmethod
    def document(self) -> Any:
        """Everything as one JSON value."""

    @property
    def is_finished(self) -> bool:
        """Whether everything is finished of what was asked for."""
        return True

    def refuse_faults(self) -> None:
        """Raise an InputError with the first fault of what is shown, such as a damaged file, if there is any."""

    def remarked(self) -> list[Table]:
        """The tables, the last one with the remarks: for all formats but that of a terminal."""
        tables = self.tables()
        return [*tables[:-1], *(replace(last, remarks=self.remarks()) for last in tables[-1:])]

    def render(self, form: str = TABLE) -> str:
        """The tables with the remarks as text."""
        if form != TABLE:
            return render(self.remarked(), form)
        return render(self.tables(), form) + "".join(f"{line}\n" for line in self.remarks())

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return to_html(self.remarked())
