"""A message is one that a person reads, whatever it quotes; what controls a terminal is shown."""

import json
import pickle

from negengine.engine.basics.errors import InputError, first_line, shortened
from negengine.engine.basics.printable import json_safe, printable, printable_lines


def test_a_message_of_any_length_is_one_line_that_keeps_what_and_what_to_do_also_in_another_process():
    message = "/home/me/runs/roberta-base/triplets.parquet: missing, or changed since the run wrote it"
    assert str(InputError(message)) == message
    assert str(InputError("--shard 1/2\n: must be I/N")) == r"--shard 1/2\n: must be I/N"
    error = InputError(f"no exported model {'x' * 5_000}: run `negengine export` first")
    assert str(error) == f"no exported model {'x' * 106}…{'x' * 52}: run `negengine export` first"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
    said = shortened("the file: " + "word " * 10_000 + "; give another one")
    assert (said[:14], said[-18:], len(said)) == ("the file: word", "; give another one", 600)
    assert shortened(said) == said
    assert (first_line(ValueError("\n  what\nmore")), first_line(ValueError())) == ("what", "ValueError")


def test_what_a_terminal_obeys_is_shown_other_texts_stay_and_a_reader_of_json_gets_the_same():
    unsafe = ["\x1b", "\x07", "\x7f", "\x9b", "\r", "\u202e", "\u2066", "\udc80"]
    shown = [r"\x1b", r"\x07", r"\x7f", r"\x9b", r"\r", r"\u202e", r"\u2066", r"\udc80"]
    assert [printable(one) for one in unsafe] == [printable_lines(one) for one in unsafe] == shown
    for text in ["naïve ≈ − × °", "中文 עברית", "😀", "[/b] [red]", "Ġsmoke", r"a\nb"]:
        assert printable(text) == text
    assert (printable("a\n\tb"), printable_lines("a\n\tb")) == (r"a\n\tb", "a\n\tb")
    document = json_safe(json.dumps(value := {"token": "".join(unsafe) + "é"}, ensure_ascii=False, indent=2))
    assert json.loads(document) == value
    assert not any(character in document for character in unsafe)
