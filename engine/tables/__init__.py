"""Tables: frames with titles, units and published figures; how they are printed is in `render`."""

from .table import Column, Table

__all__ = ["Column", "Table"]
