"""Changes a TOML document so that all else stays as it is written: comments, order, empty lines.

Pure. What comes out is parsed again and compared with what was wanted, so that no slip of the
editor gets into a file.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from light_dataclasses import dataclass

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

MOST_BYTES: Final = 1 << 20
"""Of a document that is changed: a configuration has some 20 KiB."""


class EditError(ValueError):
    """A document can't be changed so; the message says why."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """Another value of one key.

    Attributes:
        path: the key's parts, as ``("tree", "hello_s")``.
        value: the new one; None takes the key out.

    """

    path: tuple[str, ...]
    value: Any


def with_keys(text: str, changes: Sequence[KeyChange]) -> str:
    """Return the document with other values of keys.

    Args:
        text: the document.
        changes: in this order; a table on the way to a key is made where there is none.

    Raises:
        EditError: it is no TOML or too long, or a key leads through what is no table.

    """

    def edit(document: Any) -> None:
        for change in changes:
            _set(document, change)

    return _edited(text, edit)


def with_item(text: str, array: str, item: Mapping[str, Any]) -> str:
    """Return the document with one more table at the end of an array of tables.

    Args:
        text: the document.
        array: its key, as ``sensors``.
        item: the table.

    Raises:
        EditError: as `with_keys`.

    """
    return _edited(text, lambda document: _items(document, array, is_new=True).append(dict(item)))


def with_item_changed(text: str, array: str, number: int, changes: Sequence[KeyChange]) -> str:
    """Return the document with other values in one table of an array of tables.

    Args:
        text: the document.
        array: its key.
        number: of the table, from 0.
        changes: of its keys.

    Raises:
        EditError: as `with_keys`; or there is no such table.

    """

    def edit(document: Any) -> None:
        for change in changes:
            _set(_item(document, array, number), change)

    return _edited(text, edit)


def without_item(text: str, array: str, number: int) -> str:
    """Return the document without one table of an array of tables.

    Args:
        text: the document.
        array: its key.
        number: of the table, from 0.

    Raises:
        EditError: as `with_item_changed`.

    """

    def edit(document: Any) -> None:
        _item(document, array, number)
        del document[array][number]
        if not document[array]:
            del document[array]

    return _edited(text, edit)


def difference(before: str, after: str, name: str) -> str:
    """Return what changes, as a unified diff; empty if nothing does.

    Args:
        before: the document.
        after: the changed one.
        name: of its file.

    """
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, f"{name} (new)", lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


def _edited(text: str, edit: Callable[[Any], None]) -> str:
    import tomlkit  # noqa: PLC0415  # where a document is changed
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415  # as above

    if len(text) > MOST_BYTES:
        raise EditError(f"has {len(text)} characters, over {MOST_BYTES}: edit it by hand")
    wanted = _parsed(text)
    edit(wanted)
    try:
        document: TOMLDocument = tomlkit.parse(text)
        edit(document)
        written = document.as_string()
    except (TOMLKitError, RecursionError, TypeError, ValueError, KeyError) as error:
        if isinstance(error, EditError):
            raise
        raise EditError(f"can't be changed so: {error}") from error
    try:
        is_right = _are_same(tomllib.loads(written), wanted)
    except (ValueError, RecursionError):
        is_right = False
    if not is_right:
        raise EditError("is written in a way that can't be changed key by key: edit it by hand")
    return written


def _are_same(one: Any, other: Any) -> bool:
    """Return whether two values of TOML are the same, ``nan`` too, which equals nothing."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise EditError(f"not TOML: {error}") from error


def _set(table: Any, change: KeyChange) -> None:
    *outer, last = change.path
    for i, part in enumerate(outer):
        if part not in table:
            if change.value is None:
                return
            table[part] = {}
        table = table[part]
        if not isinstance(table, dict):
            raise EditError(f"{'.'.join(change.path[: i + 1])} is no table")
    if change.value is None:
        table.pop(last, None)
    else:
        table[last] = copy.deepcopy(change.value)


def _items(document: Any, array: str, *, is_new: bool = False) -> Any:
    if is_new and array not in document:
        document[array] = _new_array(document)
    found = document.get(array, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise EditError(f"{array} is no array of tables")
    return found


def _new_array(document: Any) -> Any:
    if type(document) is dict:
        return []
    import tomlkit  # noqa: PLC0415  # as above

    return tomlkit.aot()


def _item(document: Any, array: str, number: int) -> Any:
    found = _items(document, array)
    if not 0 <= number < len(found):
        raise EditError(f"{array}[{number}]: there is none")
    return found[number]
