"""The recorded choices of several shards: how each pattern was decided, put together for the merged run.

Shards on one kind of processor choose alike. On different kinds, the models' numbers differ in their last digits, and
`auto` may find mixed precision faster on one kind only. Decisions are exact in each precision, and each row of a result
says which model gave its numbers. So such shards are merged, and the merged run records all choices.
"""

from collections.abc import Mapping
from typing import Any

from ..choices import Precision

Calibration = Mapping[str, Mapping[str, Any]]
_SHARDS = "shards"
LOW_PRECISION_SHA256 = "low_precision_sha256"
"""The key of a recorded choice with the digest of the low-precision model."""
# They decide nothing once the precision is chosen.
_SPEEDS = {"speed_ratio", "speedup", "reason", "taken_from", "answers_sha256"}


def joined(shards: Mapping[str, Calibration]) -> dict[str, dict[str, Any]]:
    """How each pattern of the merged run was decided.

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
        whole[pattern] = {**chosen, **({_SHARDS: own} if differ else {})}
    return whole


def told_batches(shards: Mapping[str, int | None]) -> list[str]:
    """One line if shards were given different sizes of batches; shard → its largest number of tokens in a batch."""
    given: dict[int | None, list[str]] = {}
    for shard, tokens in shards.items():
        given.setdefault(tokens, []).append(shard)
    if len(given) < 2:
        return []
    parts = "; ".join(
        f"{', '.join(members)} with {f'{tokens} tokens' if tokens else 'the usual ones'}"
        for tokens, members in given.items()
    )
    return [f"the shards ran in different batches: {parts}. The last digits of log-probabilities can differ"]


def told_differences(shards: Mapping[str, Calibration]) -> list[str]:
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
            models = {choice.get(LOW_PRECISION_SHA256) for choice in deciding}
            why = "with different low-precision models" if len(models) > 1 else "on different kinds of processors"
            lines.append(
                f"{pattern}: the shards were calibrated {why}. The decisions are exact; the "
                "low-precision model's log-probabilities can differ from those of an undivided run"
            )
    return lines


def _way(choice: Mapping[str, Any]) -> str:
    precision = str(choice.get("precision"))
    return f"{precision} ({choice['low_precision']})" if "low_precision" in choice else precision
