"""The rules of a mapping, as a TOML file says them: ``[[mapping]]`` tables, the first that fits.

`docs/cloud.md` has the keys. Each format has its own; what a format does not know is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from cloud_ingest.mapping.sources import JsonPath, Template, TextSource
from cloud_ingest.mapping.topics import TopicFilter
from cloud_ingest.mapping.values import MAX_NAME_LENGTH, MappedKind, TimeUnit
from cloud_ingest.validation_text import named
from record_formats.value import MAX_TAGS, Quality

MAX_RULES: Final = 1_000
MAX_MEASUREMENTS: Final = 100
"""Of one rule."""
TOPIC: Final = "topic"
"""Stands for the whole topic in a template."""

_Word = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
_Words = Annotated[dict[_Word, Quality], Meta(max_length=100)]
_Tags = Annotated[dict[_Word, str], Meta(max_length=MAX_TAGS)]


class MappingError(ValueError):
    """The rules are wrong; the message names the key."""


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", kw_only=True):
    pass


class MeasurementRule(_Rule, frozen=True, kw_only=True):
    """One measurement of a JSON message.

    Attributes:
        sensor: its name: a template or a path.
        value: the path of its value.
        unit: a template or a path.
        kind: what the value has to be; None: what it is.
        optional: whether a message may come without.

    """

    sensor: str
    value: str
    unit: str | None = None
    kind: MappedKind | None = None
    optional: bool = False


class _MappingRule(_Rule, frozen=True, tag_field="format", kw_only=True):
    topic: str
    tags: _Tags = {}

    def names(self) -> Collection[str]:
        """Return what templates may name."""
        return (*TopicFilter(self.topic).names, TOPIC)

    def __post_init__(self) -> None:
        with _naming("topic"):
            told = TopicFilter(self.topic).names
            for name in told:
                if name in (TOPIC, "name", "place"):
                    raise ValueError(f"{{{name}}} has a meaning of its own")
        for key, text, form in self._sources():
            with _naming(key):
                form(text, self.names())

    def _sources(self) -> Iterator[tuple[str, str, Any]]:
        for name, text in self.tags.items():
            yield f"tags.{name}", text, Template


class JsonRule(_MappingRule, frozen=True, tag="json", kw_only=True):
    """A message is a JSON document, of which paths are read.

    Attributes:
        measurements: what it holds.
        time: the path of its time.
        time_unit: of a time that is a number.
        quality: the path of a word.
        quality_words: what words mean that are not ours.

    """

    measurements: Annotated[
        tuple[MeasurementRule, ...], Meta(min_length=1, max_length=MAX_MEASUREMENTS)
    ]
    time: str | None = None
    time_unit: TimeUnit = "s"
    quality: str | None = None
    quality_words: _Words = {}

    def _sources(self) -> Iterator[tuple[str, str, Any]]:
        for name, text in self.tags.items():
            yield f"tags.{name}", text, TextSource
        for key, path in (("time", self.time), ("quality", self.quality)):
            if path is not None:
                yield key, path, _path
        for at, each in enumerate(self.measurements):
            yield f"measurements[{at}].sensor", each.sensor, TextSource
            yield f"measurements[{at}].value", each.value, _path
            if each.unit is not None:
                yield f"measurements[{at}].unit", each.unit, TextSource


class TextRule(_MappingRule, frozen=True, tag="text", kw_only=True):
    """A message is one value as text.

    Attributes:
        sensor: a template.
        unit: a template.
        kind: what the value has to be; None: a number or a truth value where it reads as one.

    """

    sensor: str
    unit: str | None = None
    kind: MappedKind | None = None

    def _sources(self) -> Iterator[tuple[str, str, Any]]:
        yield from _MappingRule._sources(self)
        yield "sensor", self.sensor, Template
        if self.unit is not None:
            yield "unit", self.unit, Template


class RawRule(_MappingRule, frozen=True, tag="raw", kw_only=True):
    """A message is bytes that nobody reads here; ``sensor`` is a template."""

    sensor: str

    def _sources(self) -> Iterator[tuple[str, str, Any]]:
        yield from _MappingRule._sources(self)
        yield "sensor", self.sensor, Template


class SenmlRule(_MappingRule, frozen=True, tag="senml", kw_only=True):
    """A message is a SenML pack; ``{name}`` in ``sensor`` is the resolved name."""

    sensor: str = "{name}"

    def names(self) -> Collection[str]:
        """Return what templates may name."""
        return (*_MappingRule.names(self), "name")

    def _sources(self) -> Iterator[tuple[str, str, Any]]:
        yield from _MappingRule._sources(self)
        yield "sensor", self.sensor, Template


class SparkplugRule(_MappingRule, frozen=True, tag="sparkplug", kw_only=True):
    """A message is Sparkplug B's.

    In ``sensor``, ``{name}`` is the metric's name and ``{place}`` the group, node and device.
    """

    sensor: str = "{place}/{name}"

    def names(self) -> Collection[str]:
        """Return what templates may name."""
        return (*_MappingRule.names(self), "name", "place")

    def _sources(self) -> Iterator[tuple[str, str, Any]]:
        yield from _MappingRule._sources(self)
        yield "sensor", self.sensor, Template


MappingRule: TypeAlias = JsonRule | TextRule | RawRule | SenmlRule | SparkplugRule


class _File(_Rule, frozen=True, kw_only=True):
    mapping: Annotated[tuple[MappingRule, ...], Meta(max_length=MAX_RULES)] = ()


def read(text: str) -> tuple[MappingRule, ...]:
    """Read rules from TOML.

    Raises:
        MappingError: not TOML, a key unknown or missing, or a value of a wrong type or form.

    """
    try:
        return msgspec.convert(tomllib.loads(text), _File).mapping
    except tomllib.TOMLDecodeError as error:
        raise MappingError(str(error)) from error
    except msgspec.ValidationError as error:
        raise MappingError(named(error, "")) from error


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Name the key in what is raised about its value."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _path(text: str, names: Collection[str]) -> JsonPath:
    del names  # a path has none
    return JsonPath(text)
