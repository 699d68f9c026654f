"""Parts as ranges: a run over n things is cut into parts of a fixed size."""


def part_ranges(n: int, size: int) -> tuple[range, ...]:
    """The numbers from 0 to n - 1 in ranges of `size`; the last one may be shorter.

    Args:
        n: How many there are.
        size: How many a part has; at least 1.
    """
    return tuple(range(start, min(start + size, n)) for start in range(0, n, size))
