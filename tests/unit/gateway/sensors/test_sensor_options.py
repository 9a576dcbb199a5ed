"""A table of one sensor: each kind of key with its default, its bounds and its error."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.sensors.options import SensorConfigError, SensorOptions
from gateway.sensors.parameters import DriverParameter


def of(**table: Any) -> SensorOptions:
    return SensorOptions(table, "sensors[3]")


def test_each_key_is_taken_once_and_then_its_default_holds() -> None:
    options = of(t="x", w=3, n=2, f=True, c="b", m={"a": 1})
    first = [options.text("t"), options.whole("w"), options.number("n", 0.5), options.flag("f")]
    assert first == ["x", 3, 2.0, True]
    assert (options.choice("c", "ab", "a"), options.table("m")) == ("b", {"a": 1})
    options.done()
    assert not options.has("t")
    again = [options.text("t", "y"), options.whole("w", 4), options.number("n", 0.5)]
    assert again == ["y", 4, 0.5]
    assert (options.flag("f"), options.flag("f", default=True)) == (False, True)
    assert (options.choice("c", "ab", "a"), options.table("m")) == ("a", {})


def test_what_is_left_is_unknown_or_all_of_it_a_class_of_ones_own_to_judge() -> None:
    options = of(a=1, b=2)
    assert options.has("b")
    assert options.whole("a") == 1
    with pytest.raises(SensorConfigError, match=r"^sensors\[3\]\.b: unknown key$"):
        options.done()
    assert options.rest() == {"b": 2}
    assert options.rest() == {}
    options.done()


@pytest.mark.parametrize(
    ("read", "value", "why"),
    [
        ("text", None, "missing"),
        ("text", "", "'' is not a text"),
        ("text", 1, "1 is not a text"),
        ("whole", None, "missing"),
        ("whole", True, "True is not a whole number"),
        ("whole", 1.0, "1.0 is not a whole number"),
        ("flag", 1, "1 is neither true nor false"),
        ("flag", "true", "'true' is neither true nor false"),
        ("table", [], "[] is not a table"),
    ],
)
def test_a_value_of_another_kind_is_told_with_its_key(read: str, value: Any, why: str) -> None:
    options = of() if value is None else of(key=value)
    with pytest.raises(SensorConfigError) as raised:
        getattr(options, read)("key")
    assert (raised.value.key, raised.value.why) == ("sensors[3].key", why)
    assert str(raised.value) == f"sensors[3].key: {why}"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *[(True, "True is not a number"), ("1", "'1' is not a number")],
        *[(float("nan"), "nan is not finite"), (float("-inf"), "-inf is not finite")],
        (10**400, "inf is not finite"),
    ],
)
def test_a_number_is_a_finite_one(value: Any, why: str) -> None:
    with pytest.raises(SensorConfigError) as raised:
        of(key=value).number("key", 0.0)
    assert raised.value.why == why
    assert of(key=7).number("key", 0.0) == 7.0


def test_a_choice_names_all_that_may_be_chosen() -> None:
    with pytest.raises(SensorConfigError, match=r"\.key: 'c' is none of 'a', 'b'$"):
        of(key="c").choice("key", ["a", "b"], "a")


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("whole", (2, 5), {1: "1 is not 2 to 5 s", 6: "6 is not 2 to 5 s"}),
        ("number", (2.0, 5.0), {1.99: "1.99 is not 2 to 5 s", 5.01: "5.01 is not 2 to 5 s"}),
    ],
)
def test_the_least_and_the_most_of_a_parameter_are_in_its_range(
    kind: Any, inside: tuple[float, ...], outside: dict[float, str]
) -> None:
    ranged = DriverParameter("key", kind, "it", least=2, most=5, unit="s")
    for value in inside:
        assert of(key=value).take(ranged) == value
    for value, why in outside.items():
        with pytest.raises(SensorConfigError, match=f": {re.escape(why)}$"):
            of(key=value).take(ranged)
    bare = DriverParameter("key", kind, "it", least=2, most=5)
    with pytest.raises(SensorConfigError, match=r": 9 is not 2 to 5$"):
        of(key=9).take(bare)


def test_what_a_table_does_not_say_is_missing_or_has_its_default() -> None:
    needed = DriverParameter("key", "text", "it", is_needed=True)
    with pytest.raises(SensorConfigError, match=r"^sensors\[3\]\.key: missing$"):
        of().take(needed)
    assert of().take(DriverParameter("key", "text", "it", "else")) == "else"
    assert of().take(DriverParameter("key", "whole", "it", least=2, most=5)) is None


def test_a_key_that_names_something_of_this_machine_is_refused_only_where_it_was_sent() -> None:
    near = DriverParameter("key", "text", "it", "else", is_near=True)
    sent = SensorOptions({"key": "x"}, "sensor", is_afar=True)
    with pytest.raises(SensorConfigError, match=r"^sensor\.key: only the configuration may say"):
        sent.take(near)
    assert SensorOptions({}, "sensor", is_afar=True).take(near) == "else"
    assert of(key="x").take(near) == "x"
    assert (sent.is_afar, sent.where) == (True, "sensor")


def test_an_error_of_the_whole_table_names_the_table() -> None:
    assert str(of().error("", "is odd")) == "sensors[3]: is odd"
