"""Numbers as text: rounded, but never to another side of a limit that the text names, and never to a negative zero."""

import re
from collections.abc import Sequence

FRACTION, PERCENT, POINTS = "fraction", "%", "percentage points"
"""Units of shares. Frames, files and formats for machines have fractions; only what a person reads has hundredths.

Some columns of the Self-Contained Negation Test are in hundredths in all files: `repetition_rate`, `drop…`, `ratio…`.
Everywhere, a column whose name begins with `drop` is in percentage points; a fraction is a `difference`.
"""
TIMES_100 = "× 100"  # the unit of a correlation, which is not a share
HUNDREDTHS = frozenset({PERCENT, POINTS, TIMES_100})
NAMED = 0.05
"""The limit of p that texts name."""
_FURTHER, _DIGITS = 2, 6  # decimals, and digits, at most beyond those that were wanted, where a limit asks for more


def fixed(value: float, decimals: int, limits: Sequence[float] = (), sign: str = "") -> str:
    """A number with so many decimals, or with more where rounding would move it to, or beyond, one of the limits.

    99.96 is `99.96` where 100 is a limit, and `100.0` where it is not; 99.999998 is `99.999`. `sign` is `+` for a sign
    before every number.
    """
    value = round(value, 9)  # 63.75 and 63.749999999999993 are one number, computed in two ways
    least = 10.0 ** -(decimals + _FURTHER)
    for limit in limits:
        if 0 < abs(value - limit) < least:
            value = limit + (least if value > limit else -least)
    return _kept(value, [f"{sign}z,.{n}f" for n in range(decimals, decimals + _FURTHER + 1)], limits)


def significant(value: float, digits: int, limits: Sequence[float] = (NAMED,), sign: str = "") -> str:
    """A number with so many significant digits, or with more as in `fixed`: 0.0498 is not `0.05`."""
    return _kept(value, [f"{sign}z.{n}g" for n in range(digits, digits + _DIGITS)], limits)


def percent(share: float, decimals: int = 1) -> str:
    """A share from 0 to 1 in percent, without the sign: only all are `100.0`, and only none are `0.0`."""
    return fixed(100 * share, decimals, (0, 100))


def _kept(value: float, forms: Sequence[str], limits: Sequence[float]) -> str:
    sides = [_side(value, limit) for limit in limits]
    texts = [_plain(f"{value:{form}}") for form in forms]
    on_its_side = (text for text in texts if [_side(float(text.replace(",", "")), own) for own in limits] == sides)
    return next(on_its_side, texts[-1])


def _plain(text: str) -> str:
    """A large number without an exponent: 1e+02 is 100."""
    return f"{float(text):,.0f}" if "e+" in text else text


def _side(value: float, limit: float) -> int:
    return int(value > limit) - int(value < limit)  # a number of NumPy is compared to what cannot be subtracted


def interval(low: str | None, high: str | None) -> str:
    """The ends of a 95 % interval, behind its value in a sentence; empty where the value has none."""
    return "" if low is None or high is None else f" [95 % CI {low}, {high}]"


def with_minus(text: str) -> str:
    """A text for print: a minus sign, and no hyphen, stands before its negative numbers."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)
