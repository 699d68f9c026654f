"""Figures and sections as values: what a report shows of a run, before it is a page or a file."""

from .figure import Figure
from .section import Section

__all__ = ["Figure", "Section"]
