"""A light dataclass is one of the standard library's in all that its users see."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import light_dataclasses

Decorator = Callable[..., Any]
STANDARD: Decorator = dataclasses.dataclass
LIGHT: Decorator = light_dataclasses.dataclass


def point(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Point:
        """Somewhere."""

        TOP: ClassVar[int] = 9
        x: int
        y: int = 2
        z: list[int] = dataclasses.field(default_factory=list, compare=False)
        hidden: str = dataclasses.field(default="", repr=False)
        own: int = dataclasses.field(default=7, init=False)
        made: dict[str, int] = dataclasses.field(default_factory=dict, init=False, compare=False)

    return Point


def checked(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Checked:
        name: str
        length: int = dataclasses.field(default=0, init=False, hash=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

        def __repr__(self) -> str:
            return f"<{self.name}>"

    return Checked


def child(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Child(point(dataclass, **options)):
        x: int = 5
        w: int = dataclasses.field(default=4, kw_only=True)

    return Child


def bare(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Bare:
        pass

    return Bare


def single(dataclass: Decorator, **options: bool) -> Any:
    @dataclass(**options)
    class Single:
        value: int = 0

        def __hash__(self) -> int:
            return 11

    return Single


def rounded(dataclass: Decorator, **options: bool) -> Any:
    """One that says itself what equals it, so that Python gives it no hash."""

    @dataclass(**options)
    class Rounded:  # noqa: PLW1641  # the point of it
        value: float = 0.0

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and round(self.value) == round(other.value)

    return Rounded


OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "eq": False},
    {"eq": False},
]
CASES: list[tuple[Callable[..., Any], list[dict[str, Any]]]] = [
    (point, [{"x": 1}, {"x": 1, "y": 3}, {"x": 1, "z": [4]}, {"x": 1, "hidden": "h"}, {}]),
    (checked, [{"name": "a"}, {"name": "ab"}, {"name": "a", "length": 3}]),
    (child, [{}, {"x": 1}, {"w": 3}, {"v": 1}]),
    (bare, [{}, {"x": 1}]),
    (single, [{}, {"value": 3}]),
    (rounded, [{}, {"value": 1.0}, {"value": 1.2}]),
]


def set_and_delete(one: Any) -> list[object]:
    """Set and delete each field of a copy, and return the outcomes."""
    copied = copy.copy(one)
    return [
        what_comes_of(lambda do=do, name=field.name: do(copied, name))
        for field in dataclasses.fields(one)
        for do in (lambda one, name: setattr(one, name, 1), delattr)
    ]


TREATMENTS = (dataclasses.asdict, dataclasses.replace, copy.copy, copy.deepcopy, set_and_delete)


def what_comes_of(do: Callable[[], object]) -> object:
    """Return the result of a call, or the type of the error that it raises."""
    try:
        return do()
    except Exception as error:  # any: it is compared
        return type(error)


def as_seen(cls: Any, calls: list[dict[str, Any]]) -> list[object]:
    """All that the users of a class see of it and of its objects."""
    seen: list[object] = [
        cls.__match_args__,
        cls.__name__,
        cls.__qualname__,
        str(inspect.signature(cls)),
        {name: str(hint) for name, hint in typing.get_type_hints(cls.__init__).items()},
        getattr(cls, "__slots__", None),
        [(one.name, one.type, one.repr, one.kw_only) for one in dataclasses.fields(cls)],
        cls.__init__.__qualname__,
        cls.__hash__ is None,
    ]
    made = []
    for arguments in calls:
        one = what_comes_of(lambda arguments=arguments: cls(**arguments))
        if isinstance(one, type):
            seen.append(one)
        else:
            made.append(one)
    for one in made:
        seen += [
            repr(one),
            what_comes_of(lambda one=one: hash(one) if cls.__eq__ is not object.__eq__ else 0),
            *(repr(what_comes_of(lambda one=one, do=do: do(one))) for do in TREATMENTS),
        ]
        for other in (*made, 3):
            seen += [
                what_comes_of(lambda one=one, other=other, compare=compare: compare(one, other))
                for compare in (operator.eq, operator.ne, operator.lt, operator.ge)
            ]
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("case", "calls"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_its_users_see_the_standard_library_s(
    case: Callable[..., Any], calls: list[dict[str, Any]], options: dict[str, bool]
) -> None:
    expected = as_seen(case(STANDARD, **options), calls)
    assert as_seen(case(LIGHT, **options), calls) == expected


@given(
    st.tuples(st.integers(0, 2), st.integers(0, 2)), st.tuples(st.integers(0, 2), st.integers(0, 2))
)
def test_it_compares_and_hashes_as_the_tuple_of_its_fields(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    made = Pair(*one), Pair(*other)
    assert (made[0] == made[1]) is (one == other)
    assert (made[0] < made[1]) is (one < other)
    assert hash(made[0]) == hash(one)


@light_dataclasses.dataclass(frozen=True, slots=True, order=True)
class Pair:
    """Two numbers."""

    first: int
    second: int


def test_it_is_pickled_and_matched() -> None:
    match pickle.loads(pickle.dumps(Pair(1, 2))):
        case Pair(first, second):
            assert (first, second) == (1, 2)
        case other:
            pytest.fail(str(other))


def test_one_that_holds_itself_is_printed() -> None:
    one = point(LIGHT)(1)
    one.z.append(one)
    assert "z=[...]" in repr(one)


def test_a_plain_child_of_a_frozen_one_has_attributes_of_its_own() -> None:
    class Named(point(LIGHT, frozen=True)):  # type: ignore[misc]  # its parent is made here
        pass

    one = Named(1)
    one.name = "n"
    assert one.name == "n"
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        one.x = 2


def test_a_frozen_one_takes_no_attribute_that_it_has_not() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="'third'"):
        Pair(1, 2).third = 3  # type: ignore[attr-defined,misc]  # the fault


def test_what_none_of_ours_uses_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="unsafe_hash"):
        LIGHT(unsafe_hash=True)
    with pytest.raises(TypeError, match=r"Seeded\.seed: is an InitVar"):

        @LIGHT
        class Seeded:
            seed: dataclasses.InitVar[int]

    with pytest.raises(TypeError, match="eq must be true if order is true"):
        LIGHT(order=True, eq=False)(type("Ordered", (), {}))


def test_one_that_contains_itself_is_told_to_an_end_and_told_again() -> None:
    one, other = point(LIGHT)(1), point(STANDARD)(1)
    one.z, other.z = [one], [other]
    assert repr(one) == repr(other) == repr(one)
    assert "..." in repr(one)


def test_one_whose_field_cannot_be_told_can_be_told_later() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise LookupError

    one = point(LIGHT)(Silent())
    with pytest.raises(LookupError):
        repr(one)
    one.x = 1
    assert "x=1" in repr(one)


COMPILATIONS = """
import builtins, dataclasses
calls = []
def counted(source, *rest):
    calls.append(source)
    return builtins.exec(source, *rest)
import light_dataclasses.decorator as decorator
decorator.exec = dataclasses.exec = counted
@decorator.dataclass(frozen=True, slots=True, order=True)
class Pair:
    first: int
    second: int
print(len(calls))
"""


def test_to_compare_and_to_hash_are_compiled_when_they_are_first_called() -> None:
    made = point(LIGHT, frozen=True)
    before = made.__eq__, made.__hash__
    assert made(1) == made(1)
    assert hash(made(1)) == hash(made(1))
    assert made.__eq__ is not before[0]
    assert made.__hash__ is not before[1]
    assert before[0](made(1), made(1)), "who holds the first one may call it"
    assert made.__eq__.__qualname__ == f"{made.__qualname__}.__eq__"


def test_a_class_costs_a_start_one_compilation() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILATIONS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
