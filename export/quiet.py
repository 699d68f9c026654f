"""Hide the libraries' messages: an export prints its own messages."""

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator

from huggingface_hub.utils import enable_progress_bars
from transformers.utils import logging as transformers_logging


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings, log records below errors, prints on stdout, and all progress bars except for downloads."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        transformers_logging.disable_progress_bar()
        if sys.stderr.isatty():
            enable_progress_bars()
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            transformers_logging.enable_progress_bar()
