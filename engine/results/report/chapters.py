"""One run as a chapter: the sections of its probe, its sentences, its precision, its provenance."""

from ...library.registry import sections_function
from ...library.run import Run
from ...views import Section
from .examples import examples
from .page import Chapter
from .precision import precision
from .provenance import provenance


def chapter(run: Run, title: str) -> Chapter:
    """Everything about a run, from the answer to what made it.

    Args:
        run: A finished run of any probe.
        title: The heading.
    """
    own = sections_function(run.stage)
    sections = list(own(run)) if own else [Section("Results", run.remarks(), tables=run.tables())]
    return Chapter(title, [*sections, *examples(run), *precision(run), provenance(run)])
