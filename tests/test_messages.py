import pytest

from nonneg.messages import escaped, one_line, one_sentence, valid_text


def test_an_error_of_another_library_becomes_one_short_line():
    assert one_line(ValueError("two\n  lines")) == "two lines"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("x" * 1000))) == 200


@pytest.mark.parametrize(
    ("message", "printed"),
    [("a\nb", r"a\nb"), ("\x1b[31m", r"\x1b[31m"), ("\udcff", r"\xff"), ("\ud800", r"\ud800"), ("é 🦊", "é 🦊")],
)
def test_messages_hold_no_invisible_characters(message, printed):
    assert one_sentence(message) == printed


def test_names_keep_their_script_but_no_control_characters():
    assert escaped("no\u00a0break\tor tab\u2028") == "no\u00a0break\\tor tab\\u2028"


def test_file_names_that_are_not_utf8_become_valid_text():
    assert valid_text("caf\udce9") == r"caf\xe9"
