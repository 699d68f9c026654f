"""Three stages that overlap: the next part is composed and the last one written while the model decides about this one.

Composing and writing spend their time in NumPy, Polars and the operating system, and the model in ONNX Runtime; all of
them release Python's lock, so threads are enough.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Key = TypeVar("Key")
Prepared = TypeVar("Prepared")
Computed = TypeVar("Computed")


def overlap(
    keys: Iterable[Key],
    prepare: Callable[[Key], Prepared],
    compute: Callable[[Key, Prepared], Computed],
    finish: Callable[[Key, Computed], None],
) -> None:
    """Run prepare → compute → finish for each key, the three on different keys at the same time.

    `compute` runs in the calling thread, so that an interrupt reaches it; at most one key is prepared ahead and one is
    being finished. An exception in any stage ends the run once the other two have come to rest; what `finish` has
    finished stays finished.
    """
    with ThreadPoolExecutor(1, "prepare") as before, ThreadPoolExecutor(1, "finish") as after:
        ahead: Future[Prepared] | None = None
        behind: Future[None] | None = None
        keys = iter(keys)
        key = next(keys, None)
        if key is not None:
            ahead = before.submit(prepare, key)
        while key is not None and ahead is not None:
            prepared = ahead.result()
            following = next(keys, None)
            ahead = before.submit(prepare, following) if following is not None else None
            computed = compute(key, prepared)
            if behind is not None:
                behind.result()
            behind = after.submit(finish, key, computed)
            key = following
        if behind is not None:
            behind.result()
