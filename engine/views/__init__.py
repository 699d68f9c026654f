"""Tables, figures and sections as values, and every format that they are printed in."""

from .figure import Figure, Section
from .table import Column, Table

__all__ = ["Column", "Figure", "Section", "Table"]
