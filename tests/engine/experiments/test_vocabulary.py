"""Which tokens are ranked."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.vocabulary import Ranked


def test_a_list_of_words_is_read(mini_tokenizer, tmp_path):
    (tmp_path / "words.txt").write_text("rome\n\n france \r\nunspeakableness\n", "utf-8")
    assert Ranked.of(str(tmp_path / "words.txt")).ids(mini_tokenizer, 12_704).tolist() == [680, 2197]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"rome\nunspeakableness\n", r"words\.txt: 1 of 2 words are one token of the model; at least two are needed$"),
        (b"", r"words\.txt:1: the file is empty$"),
        (b"rome\nM\xfcnchen\n", r"words\.txt:2: byte 0xfc is not UTF-8"),
    ],
)
def test_a_bad_list_of_words(content, message, mini_tokenizer, tmp_path):
    (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Ranked.of(str(tmp_path / "words.txt")).ids(mini_tokenizer, 12_704)
