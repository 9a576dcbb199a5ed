"""Sensors of a gateway: those of its configuration, and those added while it ran.

What was added stands in a file of the state folder. The configuration wins: an added sensor whose
name it has, or that does not fit to what it says of other things, is left out, and comes back when
it does.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.base.kept_file import KeptFile
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.options import SensorConfigError
from gateway.sensors.reading import names_of
from light_dataclasses import dataclass

NAME: Final = "sensors.json"
VERSION: Final = 1
"""The version of the file's format."""
WITHOUT: Final = "sensors that were added while the gateway ran are gone: add them again"
MAX_ADDED: Final = 256
"""Tables that may be added."""

_log = logging.getLogger(__name__)
_Table = Mapping[str, Any]


class StockError(ValueError):
    """The file of what was added can't be used, or written; the message names it."""


class SensorConflictError(ValueError):
    """A sensor can't be added or removed as things are; the message says why."""


class SensorFactory(Protocol):
    """Builds the sensors of tables; see `bounded_workshop.BoundedWorkshop`."""

    def __call__(
        self, tables: Sequence[_Table], *, known: Sequence[ConfiguredSensor], is_afar: bool
    ) -> list[ConfiguredSensor]:
        """Return those of ``known`` that have the same table are taken as they are."""


Misfit = Callable[[Sequence[ConfiguredSensor]], str]
"""Returns why sensors can't be had together, whatever their tables say; empty if they can."""


def _no_misfit(_sensors: Sequence[ConfiguredSensor]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class SensorPlan:
    """The sensors that a gateway is to have.

    Attributes:
        configured: of the configuration.
        added: of those that were added, the ones that can be had.
        tables: all that were added.

    """

    configured: Sequence[ConfiguredSensor] = ()
    added: Sequence[ConfiguredSensor] = ()
    tables: Sequence[_Table] = ()

    @property
    def all(self) -> list[ConfiguredSensor]:
        """All sensors: those of the configuration, then those that were added."""
        return [*self.configured, *self.added]


class SensorStock:
    """The sensors of one gateway; a plan holds from `take` on.

    Args:
        file: of what was added.
        build: makes sensors of tables.
        misfit: see there.

    """

    def __init__(self, file: Path, build: SensorFactory, misfit: Misfit = _no_misfit) -> None:
        self._file = KeptFile(file, WITHOUT, is_durable=True)
        self._build = build
        self._misfit = misfit
        self.plan = SensorPlan()
        """The plan that holds."""

    def configured(self, tables: Sequence[_Table]) -> SensorPlan:
        """Return a plan with the tables of a configuration.

        Raises:
            SensorConfigError: one of them is wrong.

        """
        built = self._build(tables, known=self.plan.configured, is_afar=False)
        return self._with(built, self.plan.tables, self._build)

    def recalled(self, tables: Sequence[_Table], build: SensorFactory) -> SensorPlan:
        """Likewise at a start: with what was added before it.

        Args:
            tables: of the configuration.
            build: makes sensors this once.

        Raises:
            SensorConfigError: one of them is wrong.
            StockError: the file can't be read.

        """
        built = build(tables, known=(), is_afar=False)
        return self._with(built, self._load(), build)

    def with_added(self, table: _Table) -> SensorPlan:
        """Return a plan with one more.

        Raises:
            SensorConfigError: it is wrong.
            SensorConflictError: there is one of its name, or there are too many.

        """
        if len(self.plan.tables) >= MAX_ADDED:
            raise SensorConflictError(f"{MAX_ADDED} are added already")
        built = self._build([table], known=(), is_afar=True)
        if clash := _names(built) & _names(self.plan.all):
            raise SensorConflictError(f"there is a sensor named {min(clash)!r}")
        added = [*self.plan.added, *built]
        return SensorPlan(self.plan.configured, added, [*self.plan.tables, dict(table)])

    def with_changed(self, name: str, changes: _Table) -> SensorPlan:
        """Return a plan with another table for a sensor that was added, in place of its own.

        Args:
            name: the sensor's.
            changes: values of keys of its table; None takes a key out.

        Raises:
            KeyError: there is no such sensor.
            SensorConfigError: the table is wrong then.
            SensorConflictError: it stands in the configuration, or another one has its name.

        """
        left, table = self.without(name), self._added(name).table
        changed = {key: value for key, value in {**table, **changes}.items() if value is not None}
        built = self._build([changed], known=(), is_afar=True)
        if clash := _names(built) & _names(left.all):
            raise SensorConflictError(f"there is a sensor named {min(clash)!r}")
        tables = [changed if each == table else each for each in self.plan.tables]
        return SensorPlan(self.plan.configured, [*left.added, *built], tables)

    def without(self, name: str) -> SensorPlan:
        """Return a plan without one that was added, and without what else its table made.

        Raises:
            KeyError: there is no such sensor.
            SensorConflictError: it stands in the configuration.

        """
        table = self._added(name).table
        left = [each for each in self.plan.added if each.table != table]
        tables = [each for each in self.plan.tables if each != table]
        return SensorPlan(self.plan.configured, left, tables)

    def added_table(self, name: str) -> _Table:
        """Return the table of a sensor that was added.

        Raises:
            KeyError: there is no such sensor.
            SensorConflictError: it stands in the configuration.

        """
        return self._added(name).table

    def _added(self, name: str) -> ConfiguredSensor:
        for each in self.plan.added:
            if each.sensor.name == name:
                return each
        if name in {each.sensor.name for each in self.plan.configured}:
            raise SensorConflictError(f"{name!r} stands in the configuration")
        raise KeyError(name)

    def write(self, plan: SensorPlan) -> None:
        """Write what was added, so that it is there after a power cut.

        Raises:
            StockError: it can't be written.

        """
        data = json.dumps({"version": VERSION, "sensors": plan.tables}, indent=1).encode() + b"\n"
        try:
            self._file.write(data)
        except OSError as error:
            raise StockError(f"{self._file.path}: {error.strerror}") from error

    def take(self, plan: SensorPlan) -> None:
        """Go by a plan from now on."""
        self.plan = plan

    def _with(
        self,
        configured: Sequence[ConfiguredSensor],
        tables: Sequence[_Table],
        build: SensorFactory,
    ) -> SensorPlan:
        taken, found = _names(configured), list[list[ConfiguredSensor]]()
        for table in tables:
            try:
                built = build([table], known=self.plan.added, is_afar=True)
            except SensorConfigError as error:
                _log.error("an added sensor is left out: %s", error)
                continue
            if clash := _names(built) & taken:
                _log.warning("an added sensor is left out: %r is configured", min(clash))
                continue
            taken |= _names(built)
            found.append(built)
        return SensorPlan(configured, self._fitting(configured, found), list(tables))

    def _fitting(
        self, configured: Sequence[ConfiguredSensor], found: Sequence[Sequence[ConfiguredSensor]]
    ) -> list[ConfiguredSensor]:
        """Return those of added tables that fit to what there is before them: mostly all do."""
        every = [each for built in found for each in built]
        if not self._misfit([*configured, *every]):
            return every
        fitting = list[ConfiguredSensor]()
        for built in found:
            if why := self._misfit([*configured, *fitting, *built]):
                names = ", ".join(each.sensor.name for each in built)
                _log.error("an added sensor is left out: %s: %s", names, why)
            else:
                fitting += built
        return fitting

    def _load(self) -> list[_Table]:
        try:
            return self._file.read(_tables) or []
        except OSError as error:
            raise StockError(f"{self._file.path}: {error.strerror}") from error


def _tables(data: bytes) -> list[_Table]:
    told = json.loads(data)
    if told["version"] != VERSION:
        raise ValueError(f"version {told['version']!r}, not {VERSION}")
    tables = told["sensors"]
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ValueError("no list of sensors")
    return tables


def _names(sensors: Iterable[ConfiguredSensor]) -> set[str]:
    return {
        name
        for each in sensors
        for name in (each.sensor.name, *(part for part, _ in names_of(each.sensor)))
    }
