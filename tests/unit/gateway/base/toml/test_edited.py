"""Goal: a key is changed, and every other byte of the file stays as a person has written it."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.toml import edited, written_value
from gateway.base.toml.edited import EditError, KeyChange
from gateway.process.configuration import keys

TEXT = """\
# Of the north.
[gateway]
id = "gw"            # never changes

# Where it stands:
domain = "campus"

[tree]
neighbours = [
    "10.0.0.2:8883",  # the root
]

[[sensors]]
type = "switch"
name = "pump"  # in the yard

# The second one.
[[sensors]]
type = "host"
"""


def test_a_value_changes_and_its_comment_stays() -> None:
    after = edited.with_keys(TEXT, [KeyChange(("gateway", "domain"), "lab")])
    assert after == TEXT.replace('"campus"', '"lab"')
    after = edited.with_keys(TEXT, [KeyChange(("gateway", "id"), "gw-2")])
    assert 'id = "gw-2"' in after
    assert "# never changes" in after


def test_a_new_key_stands_in_its_table_and_a_new_table_at_the_end() -> None:
    changes = [KeyChange(("gateway", "group"), "north"), KeyChange(("mqtt", "port"), 1884)]
    after = edited.with_keys(TEXT, changes)
    assert tomllib.loads(after)["gateway"]["group"] == "north"
    assert tomllib.loads(after)["mqtt"] == {"port": 1884}
    assert [line for line in TEXT.splitlines() if line not in after.splitlines()] == []


def test_a_key_is_taken_out_and_one_that_is_not_there_may_be() -> None:
    after = edited.with_keys(TEXT, [KeyChange(("gateway", "domain"), None)])
    assert "domain" not in after
    assert edited.with_keys(TEXT, [KeyChange(("log", "max_bytes"), None)]) == TEXT


def test_what_is_no_number_is_one_of_toml_all_the_same() -> None:
    after = edited.with_keys(TEXT, [KeyChange(("gateway", "latitude"), math.nan)])
    assert math.isnan(tomllib.loads(after)["gateway"]["latitude"])


def test_a_sensor_comes_changes_and_goes() -> None:
    more = edited.with_item(TEXT, "sensors", {"type": "switch", "name": "fan"})
    assert more.startswith(TEXT.rstrip())
    assert tomllib.loads(more)["sensors"][2] == {"type": "switch", "name": "fan"}
    changed = edited.with_item_changed(TEXT, "sensors", 0, [KeyChange(("name",), "well")])
    assert changed == TEXT.replace('"pump"', '"well"')
    left = edited.without_item(TEXT, "sensors", 0)
    assert tomllib.loads(left)["sensors"] == [{"type": "host"}]
    assert "# Where it stands:" in left


def test_the_first_sensor_of_a_file_is_a_table_of_its_own() -> None:
    after = edited.with_item("[gateway]\nid = 'gw'\n", "sensors", {"type": "host"})
    assert '[[sensors]]\ntype = "host"\n' in after


def test_the_last_sensor_leaves_no_array() -> None:
    one = "[a]\nb = 1\n\n[[sensors]]\ntype = 'host'\n"
    assert tomllib.loads(edited.without_item(one, "sensors", 0)) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "path", "why"),
    [
        ("[gateway\n", ("gateway", "id"), "not TOML"),
        ("gateway = 1\n", ("gateway", "id"), "gateway is no table"),
        ("# " + "x" * edited.MOST_BYTES, ("gateway", "id"), "over 1048576"),
    ],
)
def test_what_can_not_be_changed_is_said(text: str, path: tuple[str, ...], why: str) -> None:
    with pytest.raises(EditError, match=why):
        edited.with_keys(text, [KeyChange(path, "x")])


def test_a_sensor_that_is_not_there_is_named() -> None:
    with pytest.raises(EditError, match=r"sensors\[2\]"):
        edited.without_item(TEXT, "sensors", 2)
    with pytest.raises(EditError, match="no array of tables"):
        edited.with_item("sensors = 3\n", "sensors", {"type": "host"})


def test_a_difference_names_the_file_and_the_lines() -> None:
    after = TEXT.replace("campus", "lab")
    shown = edited.difference(TEXT, after, "gateway.toml")
    assert '-domain = "campus"\n+domain = "lab"\n' in shown
    assert shown.startswith("--- gateway.toml\n+++ gateway.toml (new)\n")
    assert edited.difference(TEXT, TEXT, "gateway.toml") == ""


values = st.recursive(
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(
    value=values,
    path=st.sampled_from([key.path for key in keys.all_keys() if key.path != "sensors"]),
)
def test_any_value_of_any_key_is_what_a_reader_finds_or_is_refused(value: Any, path: str) -> None:
    parts = tuple(path.split("."))
    before = tomllib.loads(keys.reference())
    try:
        after = tomllib.loads(edited.with_keys(keys.reference(), [KeyChange(parts, value)]))
    except EditError:
        return
    table, was = after, before
    for part in parts[:-1]:
        table, was = table[part], was.get(part, {})
    assert table.pop(parts[-1]) == value
    was.pop(parts[-1], None)
    for one in (after, before):
        if not one.get(parts[0]):
            one.pop(parts[0], None)
    if len(parts) == 2:
        assert after == before


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("tree.hello_s", ("tree", "hello_s")),
        ("sensors", ("sensors",)),
        ('mqtt.plugins."a.B".x', ("mqtt", "plugins", "a.B", "x")),
    ],
)
def test_a_key_has_parts(typed: str, parts: tuple[str, ...]) -> None:
    assert written_value.key(typed) == parts


@pytest.mark.parametrize("typed", ["", "a b", "a\nb", "a = 1\nb", "a.", "[a]\nb", "a#", "a={b"])
def test_what_is_no_key_is_refused(typed: str) -> None:
    with pytest.raises(written_value.WrittenKeyError, match="is no key"):
        written_value.key(typed)


@given(st.text(max_size=40))
def test_any_text_is_a_key_or_is_refused(typed: str) -> None:
    try:
        parts = written_value.key(typed)
    except written_value.WrittenKeyError:
        return
    assert parts
    assert len(typed.splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("5", 5),
        ("true", True),
        ('["a"]', ["a"]),
        ("north", "north"),
        ('"5"', "5"),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_a_value_is_one_of_toml_or_a_text(typed: str, value: Any) -> None:
    assert written_value.value(typed) == value


@pytest.mark.parametrize(
    ("text", "path", "value", "why"),
    [
        ("a.b = 1\n", ("a", "b"), None, "is written in a way that can't be changed key by key: "),
        ("a = 1\n", ("a", "b"), 2, "a is no table"),
        ("a.b = 1\n", ("a", "b", "c"), 2, "a.b is no table"),
        ("[[a]]\nb = 1\n", ("a", "b"), 2, "a is no table"),
        ("a = 1\n", ("a",), object(), "can't be changed so: "),
        ("a = 1\n", ("a",), {1: 2}, "can't be changed so: "),
        ("a = \n", ("a",), 1, "not TOML: "),
    ],
)
def test_a_document_that_can_not_be_changed_so_stays_and_the_reason_is_told(
    text: str, path: tuple[str, ...], value: Any, why: str
) -> None:
    with pytest.raises(EditError) as raised:
        edited.with_keys(text, [KeyChange(path, value)])
    assert str(raised.value).startswith(why)


def test_a_document_has_a_longest_form_that_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edited, "MOST_BYTES", 6)
    assert edited.with_keys("a = 1\n", [KeyChange(("a",), 2)]) == "a = 2\n"
    with pytest.raises(EditError, match=r"^has 7 characters, over 6: edit it by hand$"):
        edited.with_keys("a = 10\n", [KeyChange(("a",), 2)])
