"""Values of fields of another make's message: a value of a kind, a time, a quality."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, get_args

from cloud_ingest.measurements import NUMBER, TRUTHS, exact_of, number_of, number_of_text
from record_formats.record import MAX_TEXT_LENGTH, RecordError
from record_formats.value import Quality, Value

MappedKind = Literal["number", "text", "boolean"]
TimeUnit = Literal["s", "ms", "us", "ns"]

MAX_NAME_LENGTH: Final = 200
"""Of sensors, units and tags, in characters."""
MAX_VALUE_LENGTH: Final = MAX_TEXT_LENGTH
"""Of a value that is text, in characters."""

_DAY_ONE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_A_SECOND: Final[Mapping[TimeUnit, float]] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def bounded(where: str, text: str, limit: int) -> str:
    """Return a text that a table can hold.

    Raises:
        RecordError: longer than ``limit`` characters, or no Unicode.

    """
    if len(text) > limit:
        raise RecordError(f"{where}: {len(text)} characters, at most {limit} are read")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise RecordError(f"{where}: no Unicode text") from error
    return text


def value_of(where: str, found: object, kind: MappedKind | None) -> Value:
    """Take what JSON or a text says as a value.

    Args:
        where: names it in errors.
        found: not null.
        kind: what it has to be, also where it is written as text; None: what it is.

    Raises:
        RecordError: it is not of this kind, or no value at all.

    """
    if kind == "number":
        return _number(where, found)
    if kind == "boolean":
        return _truth(where, found)
    if isinstance(found, str):
        return bounded(where, found, MAX_VALUE_LENGTH)
    if kind == "text":
        raise RecordError(f"{where}: {type(found).__name__} is no text")
    return found if isinstance(found, bool) else exact_of(where, found)


def _number(where: str, found: object) -> float:
    if not isinstance(found, str):
        return exact_of(where, found)
    if not NUMBER.fullmatch(found):
        raise RecordError(f"{where}: {found[:40]!r} is not a number")
    return number_of_text(where, found)


def _truth(where: str, found: object) -> bool:
    if isinstance(found, bool):
        return found
    if isinstance(found, str) and found in TRUTHS:
        return TRUTHS[found]
    if isinstance(found, int) and found in (0, 1):
        return bool(found)
    raise RecordError(f"{where}: neither true, false, 1 nor 0")


def time_of(where: str, found: object, unit: TimeUnit) -> float:
    """Take a field as a time, in seconds since 1970.

    Args:
        where: names it in errors.
        found: a number of units since 1970, or a text as RFC 3339 has it, with its offset.
        unit: of a number.

    Raises:
        RecordError: it is neither.

    """
    if not isinstance(found, str):
        return number_of(where, found) / _A_SECOND[unit]
    try:
        time = datetime.fromisoformat(found)
    except ValueError as error:
        raise RecordError(f"{where}: {found[:40]!r} is no time of RFC 3339") from error
    if time.tzinfo is None:
        raise RecordError(f"{where}: {found[:40]!r} has no offset from UTC")
    return (time - _DAY_ONE).total_seconds()


def quality_of(where: str, word: str, words: Mapping[str, Quality]) -> Quality:
    """Take a word as a quality.

    Args:
        where: names it in errors.
        word: as the message has it.
        words: what other words mean.

    Raises:
        RecordError: nobody said what the word means.

    """
    if (told := words.get(word)) is not None:
        return told
    for quality in get_args(Quality):
        if word == quality:
            return quality  # type: ignore[no-any-return]  # one of the literal's own
    raise RecordError(f"{where}: {word[:40]!r} is no quality that the rule knows")
