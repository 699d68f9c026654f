"""Slices of the last axis by constant bounds: some channels of a value."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ..graph import array, attribute, is_constant, written_by
from ..observe import Layout


@dataclass(frozen=True)
class Part:
    """Some channels of a value."""

    whole: ir.Value
    channels: range


def part_of_last_axis(value: ir.Value | None, known: Mapping[ir.Value, Layout]) -> Part | None:
    """Which channels of which other value a value is, if a Slice or a Split takes them."""
    node = written_by(value, "Slice", "Split")
    whole = node.inputs[0] if node is not None else None
    if value is None or node is None or whole is None:
        return None
    rank, width = len(known[whole].shape), known[whole].shape[-1]
    if node.op_type == "Split":
        before = node.outputs[: node.outputs.index(value)]
        start = sum(known[one].shape[-1] for one in before)
        along_last_axis = attribute(node, "axis", 0) in {-1, rank - 1}
        return Part(whole, range(start, start + known[value].shape[-1])) if along_last_axis else None
    bounds = node.inputs[1:]
    if len(bounds) < 3 or not all(map(is_constant, bounds)):
        return None
    numbers = [array(bound).tolist() for bound in bounds]
    if any(len(each) != 1 for each in numbers) or numbers[2][0] not in {-1, rank - 1}:
        return None
    step = numbers[3][0] if len(numbers) > 3 else 1
    return Part(whole, range(width)[numbers[0][0] : numbers[1][0] : step])
