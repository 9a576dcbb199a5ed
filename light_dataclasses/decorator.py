"""The decorator `dataclass`: the standard library's classes, made at a fifth of its price.

`dataclasses.dataclass` writes source for each method of each class and compiles it when the class
is imported: five to six compilations a class, most of them for methods that the process never
calls. A gateway has hundreds of such classes, and on a Pi they were a third of its start. Here one
method is compiled then, `__init__`. To compare and to hash are compiled when they are first called,
and are as fast as the standard library's from then on. The others are closures over the class, and
look its fields up when they are called: they behave the same, and all classes share their code.

The standard library still reads the annotations. So `fields`, `replace`, `asdict`, `match`, type
checkers and mypyc see the dataclass that they know. What none of our classes uses is refused by
its name: the arguments ``init``, ``repr``, ``unsafe_hash``, ``match_args`` and ``weakref_slot``,
and `InitVar`.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from _thread import get_ident  # as reprlib does: nothing else of threads is needed
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

Class = type[Any]
Values = Callable[[Any], tuple[Any, ...]]

_ORDER = {
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}
_NATIVE = "__mypyc_attrs__"
"""The mark of a class that mypyc compiled: its attributes have slots already."""
_told: set[tuple[int, int]] = set()
"""Objects whose `__repr__` runs, each with the thread: one that contains itself has an end."""


def light_dataclass(
    cls: Class | None = None,
    /,
    *,
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    kw_only: bool = False,
    slots: bool = False,
) -> Any:
    """Make a class a dataclass; see `dataclasses.dataclass`, which has the same arguments.

    Raises:
        TypeError: the class has an `InitVar`, or is ordered and not compared.

    """

    def make(cls: Class) -> Class:
        return _made(cls, eq=eq, order=order, frozen=frozen, kw_only=kw_only, slots=slots)

    return make if cls is None else make(cls)


if not TYPE_CHECKING:  # type checkers and mypyc go by the standard library's
    dataclass = light_dataclass


def _made(cls: Class, *, eq: bool, order: bool, frozen: bool, kw_only: bool, slots: bool) -> Class:
    if order and not eq:
        raise TypeError(f"{cls.__qualname__}: eq must be true if order is true")
    written = dict(vars(cls))
    if written.get("__hash__") is None:
        written.pop("__hash__", None)  # Python's own None, beside an __eq__ that is written
    slots = slots and _NATIVE not in written
    made: Class = dataclasses.dataclass(
        init=False, repr=False, eq=False, kw_only=kw_only, slots=slots
    )(cls)
    fields = dataclasses.fields(made)
    strange = set(made.__match_args__) - {one.name for one in fields}
    if strange:
        told = ", ".join(sorted(strange))
        raise TypeError(f"{cls.__qualname__}.{told}: is an InitVar; make it a field")
    methods: dict[str, Any] = {"__repr__": _repr(made)}
    if "__init__" not in written:
        methods["__init__"] = _init(made, fields, is_frozen=frozen)
    if eq:
        methods["__eq__"] = _eq(made)
        methods["__hash__"] = _hash(made) if frozen else None
    if order:
        values = _values(_compared(made))
        methods |= {name: _ordered(name, values, compare) for name, compare in _ORDER.items()}
    if frozen:
        methods |= {
            "__setattr__": _refused_setattr(made),
            "__delattr__": _refused_delattr(made),
        }
    for name in methods.keys() - written.keys():
        if methods[name] is not None:
            methods[name].__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, methods[name])
    if frozen and slots:  # or what copies and unpickles would set attributes
        for state in (_getstate, _setstate):
            if state.__name__ not in written:
                setattr(made, state.__name__, state)
    return made


# -- methods that are closures ---------------------------------------------------------------------


def _values(names: Sequence[str]) -> Values:
    """Return what gives a tuple of these attributes of an object."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if not names:
        return lambda _: ()
    value = operator.attrgetter(names[0])
    return lambda one: (value(one),)


def _compared(cls: Class) -> list[str]:
    return [one.name for one in dataclasses.fields(cls) if one.compare]


def _repr(cls: Class) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807  # the class's
        key = id(self), get_ident()
        if key in _told:
            return "..."
        _told.add(key)
        try:
            names = [one.name for one in dataclasses.fields(cls) if one.repr]
            told = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        finally:
            _told.discard(key)
        return f"{type(self).__qualname__}({told})"

    return __repr__


def _eq(cls: Class) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        names = _compared(cls)
        return _compiled(
            cls,
            "__eq__(self, other)",
            "if other.__class__ is self.__class__:",
            f" return {_tuple('self', names)} == {_tuple('other', names)}",
            "return NotImplemented",
        )(self, other)

    return __eq__


def _hash(cls: Class) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        fields = dataclasses.fields(cls)
        names = [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
        source = f"return hash({_tuple('self', names)})"
        return int(_compiled(cls, "__hash__(self)", source)(self))

    return __hash__


def _compiled(cls: Class, head: str, *body: str) -> Callable[..., Any]:
    """Compile a method at its first call, and put it in the place of what was called."""
    local: dict[str, Any] = {}
    exec("\n  ".join([f"def {head}:", *body]), {}, local)  # noqa: S102  # names of fields alone
    ((name, method),) = local.items()
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    setattr(cls, name, method)
    made: Callable[..., Any] = method
    return made


def _tuple(owner: str, names: Sequence[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _ordered(
    name: str, values: Values, compare: Callable[[Any, Any], bool]
) -> Callable[[Any, object], Any]:
    def ordered(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return compare(values(self), values(other))
        return NotImplemented

    ordered.__name__ = name
    return ordered


def _refused_setattr(cls: Class) -> Callable[[Any, str, object], None]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or _is_field(cls, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    return __setattr__


def _refused_delattr(cls: Class) -> Callable[[Any, str], None]:
    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or _is_field(cls, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __delattr__


def _is_field(cls: Class, name: str) -> bool:
    return any(one.name == name for one in dataclasses.fields(cls))


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_getstate.__name__, _setstate.__name__ = "__getstate__", "__setstate__"


# -- the method that is compiled -------------------------------------------------------------------


class _FromFactory:
    """Stands in a signature for a default that is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FROM_FACTORY = _FromFactory()


def _init(cls: Class, fields: Sequence[Field[Any]], *, is_frozen: bool) -> Callable[..., None]:
    """Compile `__init__`: parameters in the order of the fields, those by keyword alone last."""
    around: dict[str, Any] = {"_set": object.__setattr__, "_FROM_FACTORY": _FROM_FACTORY}
    positional, by_keyword = ["self"], list[str]()
    body = list[str]()
    for one in fields:
        if one.init:
            (by_keyword if one.kw_only else positional).append(_parameter(one, around))
        value = _value(one, around)
        if value and is_frozen:
            body.append(f"_set(self, {one.name!r}, {value})")
        elif value:
            body.append(f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    if by_keyword:
        by_keyword.insert(0, "*")
    source = (
        f"def made({', '.join(around)}):\n"
        f" def __init__({', '.join(positional + by_keyword)}):\n  "
        + "\n  ".join(body or ["pass"])
        + "\n return __init__"
    )
    # The module's own names, in which annotations are looked up.
    found = sys.modules.get(cls.__module__)
    local: dict[str, Any] = {}
    exec(source, {} if found is None else vars(found), local)  # noqa: S102  # names of fields alone
    init: Callable[..., None] = local["made"](**around)
    init.__annotations__ = {one.name: one.type for one in fields if one.init} | {"return": None}
    return init


def _parameter(field: Field[Any], around: dict[str, Any]) -> str:
    """Write a field's parameter, and put what it names around the function."""
    if field.default is not MISSING:
        around[f"_default_{field.name}"] = field.default
        return f"{field.name}=_default_{field.name}"
    if field.default_factory is not MISSING:
        return f"{field.name}=_FROM_FACTORY"
    return field.name


def _value(field: Field[Any], around: dict[str, Any]) -> str:
    """Write what a field is set to; empty if the class does that itself."""
    name = field.name
    if field.default_factory is MISSING:
        if field.init:
            return name
        if field.default is MISSING:
            return ""
        around[f"_default_{name}"] = field.default
        return f"_default_{name}"
    around[f"_make_{name}"] = field.default_factory
    if not field.init:
        return f"_make_{name}()"
    return f"_make_{name}() if {name} is _FROM_FACTORY else {name}"
