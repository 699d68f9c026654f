"""The sentences of a paragraph and the words of a sentence, without a model.

Words are divided as in CD-SCO, which follows the Penn Treebank: a contracted negation, a clitic and a punctuation mark
are words of their own (`do n't`, `can not`, `Holmes 's`), and a word with hyphens is one word.
"""

import re

from .word_list import WORDS

_END = re.compile(r"""([.!?…]["'”’)\]]*)\s+(?=["'“‘(\[]*[A-Z0-9])""")
_ABBREVIATED = re.compile(rf"\b(?:{'|'.join(map(re.escape, WORDS['abbreviations']))}|[A-Z])\.$")
_LONGEST_ABBREVIATION = max(map(len, WORDS["abbreviations"])) + 2

_WORDS = re.compile(
    r"""(?i:can)(?=not\b)                      # can not
      | [^\W\d_]+?(?=(?i:n't)\b)               # do n't
      | (?i:n't)\b
      | '(?i:s|re|ve|ll|d|m)\b                 # Holmes 's
      | (?:Mr|Mrs|Ms|Dr|St)\.                  # a full stop of an abbreviation belongs to it
      | \d+(?:[.,:]\d+)*(?:\w+)?
      | \w+(?:-\w+)*
      | \.{2,} | -{2,} | \S
    """,
    re.VERBOSE,
)


def split_sentences(line: str) -> list[str]:
    """Sentences of a paragraph: they end with . ! ? before a capital or a digit, but not after an abbreviation."""
    sentences = []
    start = 0
    for match in _END.finditer(line):
        # Only the last word counts: to search the whole sentence again at each full stop would take quadratic time.
        if not _ABBREVIATED.search(line, max(start, match.end(1) - _LONGEST_ABBREVIATION), match.end(1)):
            sentences.append(line[start : match.end(1)].strip())
            start = match.end()
    return [sentence for sentence in (*sentences, line[start:].strip()) if sentence]


def split_words(sentence: str) -> list[str]:
    """The words and punctuation marks of a sentence, from left to right; see the module."""
    return _WORDS.findall(sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
