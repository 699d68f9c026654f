"""Hide the libraries' messages: an export prints its own. Warnings about numbers are still shown."""

import contextlib
import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from huggingface_hub.utils import enable_progress_bars
from transformers.utils import logging as transformers_logging

# A tokenizer that divides words otherwise, positions that are counted or rotated otherwise, attention that sees more.
_OF_NUMBERS = re.compile(
    r"byte fallback|incorrect|unrecognized keys|not implemented for|rope_(scaling|parameters)|"
    r"will not be (used|applied)|"
    r"(wrong|unexpected|different) (results|outputs|behaviou?r)|will (give|produce|lead)",
    re.IGNORECASE,
)
_LONGEST_LINE = 300  # characters


@contextlib.contextmanager
def quiet(say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Silence warnings, log records below errors, prints on stdout, and all progress bars except for downloads.

    What says something of numbers is said in one line, once.
    """
    make_record, said = logging.getLogRecordFactory(), set[str]()
    level = transformers_logging.get_verbosity()

    def hear(message: str) -> None:
        line = re.split(r"(?<=[.!]) ", " ".join(message.split()), maxsplit=1)[0][:_LONGEST_LINE]
        if _OF_NUMBERS.search(message) and line not in said:
            said.add(line)
            say(f"transformers warns: {line}")

    def record(*given: Any, **named: Any) -> logging.LogRecord:
        made = make_record(*given, **named)
        if made.levelno < logging.ERROR:
            hear(made.getMessage())
            made.levelno = -1  # below what any handler takes
        return made

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: hear(str(message))
        transformers_logging.set_verbosity_warning()  # transformers' Trainer leaves it higher: nothing would be heard
        transformers_logging.disable_progress_bar()
        if sys.stderr.isatty():
            enable_progress_bars()
        logging.setLogRecordFactory(record)
        try:
            yield
        finally:
            logging.setLogRecordFactory(make_record)
            transformers_logging.set_verbosity(level)
            transformers_logging.enable_progress_bar()
