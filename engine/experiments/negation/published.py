"""The figures that papers print for a pattern set and a model, shown next to ours: `[[published]]` of pattern files."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ...text.bundled import SELF_CONTAINED_NEGATION, bundled_patterns
from ...text.pattern import PatternSet, PublishedColumn
from ...text.pattern_files import PatternFile, load_language


@dataclass(frozen=True)
class Published:
    """What a paper prints for a model.

    Attributes:
        model: The model, by the name that the paper uses.
        selection: Table 5 with the keys of selection.json: verbs, pairs, tested, repeating, ratio (percent), selected.
        coreference: Whom the target sentence is about (a value of `Coreference`) → the drops.
        doubts: What is uncertain about these figures, as sentences.
    """

    model: str
    selection: Mapping[str, float]
    coreference: Mapping[str, PublishedColumn]
    doubts: tuple[str, ...]


def published(model_name: str, patterns: PatternSet) -> Published | None:
    """The published figures for a model in a pattern set; None if no paper has tested it.

    Args:
        model_name: The hub id or the bare name.
        patterns: The set of the run. The figures of a bundled set are those of the installed version.
    """
    columns = patterns.published or _bundled(patterns.sha256)
    own = [column for column in columns if model_name in column.models]
    if not own:
        return None
    return Published(
        model=own[0].models[0],
        selection=next((column.selection for column in own if column.selection), {}),
        coreference={column.coreference: column for column in own},
        doubts=tuple(dict.fromkeys(doubt for column in own for doubt in column.doubts)),
    )


@cache
def _bundled(sha256: str) -> tuple[PublishedColumn, ...]:
    """The figures of the bundled set with this digest. The paper's own set is read first, and mostly alone."""
    named = sorted(bundled_patterns(), key=lambda name: name != SELF_CONTAINED_NEGATION)
    sets = (load_language(name).patterns for name in named if PatternFile.read(name).published)
    return next((patterns.published for patterns in sets if patterns.sha256 == sha256), ())
