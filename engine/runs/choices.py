"""The recorded choices of several shards: how each pattern was decided, put together for the merged run.

Shards on one kind of processor choose alike. On different kinds, the models' numbers differ in their last digits, and
`auto` may find mixed precision faster on one kind only. Decisions are exact in each precision, and each row of a result
says which model gave its numbers. So such shards are merged, and the merged run records all choices.
"""

from collections.abc import Mapping
from typing import Any

from ..choices import Precision

Choices = Mapping[str, Mapping[str, Any]]
# They decide nothing once the precision is chosen.
_SPEEDS = {"speed_ratio", "speedup", "reason", "taken_from", "answers_sha256"}


def joined(shards: Mapping[str, Choices]) -> dict[str, dict[str, Any]]:
    """The choices of the merged run.

    Args:
        shards: Shard → pattern → how it is decided, in the order of the shards.

    Returns:
        Pattern → the choice of the first shard that has mixed precision, as this can decide a part again with a wider
        margin; else the first choice. If shards differ, `shards` holds each one's own.
    """
    whole = {}
    for pattern in dict.fromkeys(pattern for choices in shards.values() for pattern in choices):
        own = {shard: dict(choices[pattern]) for shard, choices in shards.items() if pattern in choices}
        mixed = [choice for choice in own.values() if choice.get("precision") == Precision.MIXED]
        chosen = [*mixed, *own.values()][0]
        differ = any(choice != chosen for choice in own.values())
        whole[pattern] = {**chosen, **({"shards": own} if differ else {})}
    return whole


def told_differences(shards: Mapping[str, Choices]) -> list[str]:
    """One line for each pattern that shards decided in different ways; args as for `joined`."""
    lines = []
    for pattern in dict.fromkeys(pattern for choices in shards.values() for pattern in choices):
        own = {shard: choices[pattern] for shard, choices in shards.items() if pattern in choices}
        ways: dict[str, list[str]] = {}
        for shard, choice in own.items():
            ways.setdefault(_way(choice), []).append(shard)
        deciding = [{key: value for key, value in choice.items() if key not in _SPEEDS} for choice in own.values()]
        if len(ways) > 1:
            parts = "; ".join(f"{', '.join(members)} in {way}" for way, members in ways.items())
            lines.append(
                f"{pattern}: the shards were decided in different precisions: {parts}. The decisions are exact in "
                "each. The log-probabilities are those of the model that the column `precision` names"
            )
        elif any(choice != deciding[0] for choice in deciding):
            lines.append(
                f"{pattern}: the shards were calibrated on different kinds of processors. The decisions are exact; the "
                "low-precision model's log-probabilities can differ from those of an undivided run"
            )
    return lines


def _way(choice: Mapping[str, Any]) -> str:
    precision = str(choice.get("precision"))
    return f"{precision} ({choice['low_precision']})" if "low_precision" in choice else precision
