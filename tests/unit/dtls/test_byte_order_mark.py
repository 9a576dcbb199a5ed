"""A byte order mark before a text is taken off, refused or told of, by what it is."""

from __future__ import annotations

import codecs

import pytest

from dtls.byte_order_mark import first_line, text_of, why_marked, why_utf_16

UTF_8 = "begins with a byte order mark: save it as UTF-8 without one"
UTF_16 = "begins with a byte order mark of UTF-16: save it as UTF-8"


@pytest.mark.parametrize(
    ("data", "marked", "utf_16"),
    [
        (b"", "", ""),
        (b"text", "", ""),
        (b"x\xef\xbb\xbf", "", ""),
        (codecs.BOM_UTF8, UTF_8, ""),
        (codecs.BOM_UTF8 + b"text", UTF_8, ""),
        (codecs.BOM_UTF16_LE + b"t\0", UTF_16, UTF_16),
        (codecs.BOM_UTF16_BE + b"\0t", UTF_16, UTF_16),
    ],
)
def test_each_mark_is_named_with_what_to_do(data: bytes, marked: str, utf_16: str) -> None:
    assert why_marked(data) == marked
    assert why_utf_16(data) == utf_16


def test_a_text_is_read_without_the_mark_of_utf_8() -> None:
    assert text_of(codecs.BOM_UTF8 + "é\n".encode()) == text_of("é\n".encode()) == "é\n"
    assert text_of(b"") == ""
    for data, why in (("é".encode("utf-16"), UTF_16), (b"\xff", "is not UTF-8")):
        with pytest.raises(ValueError, match=why):
            text_of(data)


@pytest.mark.parametrize("before", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nmore\r\n", b"\r\nmore\n"])
def test_a_first_line_ends_where_any_editor_ends_it(before: bytes, end: bytes) -> None:
    assert first_line(before + b"a b" + end) == b"a b"
