"""Writing held-out pairs as a file of the benchmark, so that `negengine nli` tests on them."""

from collections.abc import Sequence
from pathlib import Path

from ....engine.experiments.nli.pairs import Pair
from ....engine.files.atomic import make_folder, write_bytes

FOLDER = "held-out"
_HEADER = ("index", "Text", "Hypothesis", "gold_label")


def write_held_out(folder: Path, source: str, pairs: Sequence[Pair]) -> Path:
    """Write pairs in the layout of the benchmark, with their own indices, which say the type of a pair.

    Args:
        folder: The folder of a training; a folder `held-out` in it gets the file.
        source: RTE, SNLI or MNLI.
        pairs: The pairs.

    Returns:
        The folder with the file.

    Raises:
        InputError: It cannot be written.
    """
    rows = [_HEADER, *((str(pair.item), pair.text, pair.hypothesis, str(pair.gold)) for pair in pairs)]
    make_folder(folder / FOLDER)
    write_bytes(folder / FOLDER / f"{source}.txt", "".join("\t".join(row) + "\n" for row in rows).encode())
    return folder / FOLDER
