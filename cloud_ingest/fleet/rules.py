"""Rules by which the fleet's watch raises alerts and clears them: thresholds by kind of alert.

They stand in a TOML file with a table for each kind, and an array ``override`` of tables that are
for some gateways, domains or sensors alone. Where several fit, the last one wins, key by key. What
opens an alert is always further away than what clears it, so that a value that trembles raises one
alert.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from alerts import thresholds
from cloud_ingest.fleet.ingest_rules import IngestThresholds
from cloud_ingest.fleet.kinds import KindRule
from cloud_ingest.validation_text import named

MAX_OVERRIDES: Final = 1_000
_KEPT_DECISIONS: Final = 300_000
"""Thresholds that are remembered, by gateway, domain and sensor."""

_T = TypeVar("_T")
_Positive = Annotated[float, Meta(gt=0)]
_NotNegative = Annotated[float, Meta(ge=0)]
_Few = Annotated[int, Meta(ge=1, le=16)]


class RulesError(ValueError):
    """The rules are wrong; the message names the key."""


def _apart(lesser: str, low: float, greater: str, high: float) -> None:
    if not low < high:
        raise ValueError(f"{lesser} {low:g} is not less than {greater} {high:g}")


class Silent(KindRule, frozen=True, kw_only=True):
    """Nothing came for ``intervals`` of its own, and at least ``least-s``.

    It clears when two records came at the pace at which the gateway says it sends them.
    """

    intervals: Annotated[float, Meta(ge=2)] = 3.0
    least_s: Annotated[float, Meta(ge=15)] = 30.0


class Gap(KindRule, frozen=True, kw_only=True):
    """A logged message is missing ``after-s`` after a later one came.

    It clears when all that was missing has come, or ``forgets-s`` after the last gap was found.
    """

    after_s: _Positive = 60.0
    forgets_s: _Positive = 86_400.0


class FlappingRoot(KindRule, frozen=True, kw_only=True):
    """It became root ``elections`` times within ``window-s``; clears with one or none."""

    elections: Annotated[int, Meta(ge=2, le=32)] = 4
    window_s: _Positive = 600.0


class ClockOff(KindRule, frozen=True, kw_only=True):
    """Its clock and the collector's disagree by ``opens-s`` in ``records`` records in a row."""

    opens_s: _Positive = 30.0
    clears_s: _NotNegative = 10.0
    records: _Few = 3

    def __post_init__(self) -> None:
        _apart("clears-s", self.clears_s, "opens-s", self.opens_s)


class DiskWearing(KindRule, frozen=True, kw_only=True):
    """It writes so much to its disk that the disk will not last, over at least ``window-s``."""

    opens_bytes_per_day: _Positive = thresholds.WEARING_BYTES_PER_DAY
    clears_bytes_per_day: _NotNegative = thresholds.LASTING_BYTES_PER_DAY
    window_s: Annotated[float, Meta(ge=60)] = thresholds.WEAR_WINDOW_S

    def __post_init__(self) -> None:
        opens = self.opens_bytes_per_day
        _apart("clears-bytes-per-day", self.clears_bytes_per_day, "opens-bytes-per-day", opens)


class DiskFull(KindRule, frozen=True, kw_only=True):
    """So little of its disk is free: a share from 0 to 1."""

    opens_free: Annotated[float, Meta(ge=0, le=1)] = thresholds.LITTLE_FREE
    clears_free: Annotated[float, Meta(ge=0, le=1)] = thresholds.ENOUGH_FREE

    def __post_init__(self) -> None:
        _apart("opens-free", self.opens_free, "clears-free", self.clears_free)


class UnderVoltage(KindRule, frozen=True, kw_only=True):
    """Its supply is too weak; clears after ``clears-records`` records without."""

    clears_records: _Few = 3


class Hot(KindRule, frozen=True, kw_only=True):
    """Its processor has ``opens-cel`` degrees Celsius; clears below ``clears-cel``."""

    opens_cel: float = thresholds.HOT_CEL
    clears_cel: float = thresholds.COOL_CEL

    def __post_init__(self) -> None:
        _apart("clears-cel", self.clears_cel, "opens-cel", self.opens_cel)


class BackupOverdue(KindRule, frozen=True, kw_only=True):
    """It says that it has no good backup for too long, or that the last trial of one failed.

    After how long is a setting of the gateway's (``gateway_backup_overdue_days``).
    """


class SensorStuck(KindRule, frozen=True, kw_only=True):
    """A sensor says the same for ``after-s``, in at least ``readings`` readings; 0 s: never."""

    after_s: _NotNegative = 0.0
    readings: Annotated[int, Meta(ge=2)] = 10


class SensorRange(KindRule, frozen=True, kw_only=True):
    """A sensor's value is below ``low`` or above ``high``.

    It clears when all readings of a batch are within both by ``margin``.
    """

    low: float | None = None
    high: float | None = None
    margin: _NotNegative = 0.0

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None:
            _apart("low and twice margin", self.low + 2 * self.margin, "high", self.high)


class TwoLives(KindRule, frozen=True, kw_only=True):
    """Two gateways run under one id: the fleet hears both in turns, ``returns`` times.

    It clears after ``clears-s`` in which one alone was heard.
    """

    returns: Annotated[int, Meta(ge=2, le=8)] = 2
    clears_s: _Positive = 600.0


class GivingUp(KindRule, frozen=True, kw_only=True):
    """So much is missing of it, or it has so many lives, that the job gave up what is oldest.

    It clears ``clears-s`` after the last time.
    """

    clears_s: _Positive = 86_400.0


class SensorsUnwatched(KindRule, frozen=True, kw_only=True):
    """A sensor that a rule is for is not watched: its gateway has more than are remembered.

    It clears ``clears-s`` after the last time.
    """

    clears_s: _Positive = 86_400.0


class Flapping(KindRule, frozen=True, kw_only=True):
    """An alert of any kind was raised ``raises`` times within ``window-s``.

    It clears when nothing has changed for ``steady-s``.
    """

    raises: Annotated[int, Meta(ge=2, le=32)] = 4
    window_s: _Positive = 1_800.0
    steady_s: _Positive = 900.0


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", kw_only=True):
    """The limits of what is remembered; who was heard of longest ago is forgotten first."""

    gateways: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    sensors: Annotated[int, Meta(ge=0, le=10_000)] = 256
    """Of one gateway."""
    forget_gateway_s: _Positive = 30 * 86_400.0
    """After a gateway was last heard."""
    closed_s: _Positive = 90 * 86_400.0
    """Alerts and gaps, after they were closed."""
    remind_s: _NotNegative = 86_400.0
    """A way out is told so often of an alert that stays open; 0: once."""


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """All kinds of alerts, for one gateway or sensor."""

    silent: Silent = Silent()
    gap: Gap = Gap()
    flapping_root: FlappingRoot = FlappingRoot()
    clock_off: ClockOff = ClockOff()
    disk_wearing: DiskWearing = DiskWearing()
    disk_full: DiskFull = DiskFull()
    under_voltage: UnderVoltage = UnderVoltage()
    hot: Hot = Hot()
    backup_overdue: BackupOverdue = BackupOverdue()
    sensor_stuck: SensorStuck = SensorStuck()
    sensor_range: SensorRange = SensorRange()
    two_lives: TwoLives = TwoLives()
    given_up: GivingUp = GivingUp()
    flapping: Flapping = Flapping()
    sensors_unwatched: SensorsUnwatched = SensorsUnwatched()

    def are_for(self, kind: str) -> bool:
        """Return whether alerts of a kind are raised; those of the ingest have their own rules."""
        rule = getattr(self, kind.replace("-", "_"), None)
        return rule is None or bool(rule.on)


class Override(msgspec.Struct, frozen=True):
    """Thresholds that are for some alone; patterns are those of `fnmatch`.

    Attributes:
        gateway: whose id fits.
        domain: whose domain fits, ``-`` for none.
        sensor: whose name fits; it counts for alerts of sensors alone.
        changes: keys by kind, as in the file.

    """

    gateway: str
    domain: str
    sensor: str
    changes: Mapping[str, Mapping[str, Any]]

    def fits(self, gateway: str, domain: str, sensor: str | None) -> bool:
        """Return whether it is for this gateway, or this sensor of it."""
        return (
            fnmatchcase(gateway, self.gateway)
            and fnmatchcase(domain, self.domain)
            and (self.sensor == "*" if sensor is None else fnmatchcase(sensor, self.sensor))
        )


class AlertRules:
    """The rules of one fleet.

    Args:
        base: thresholds for all.
        overrides: for some, in their order.
        kept: how much is remembered.
        ingest: for the job itself and its collectors.

    """

    def __init__(
        self,
        base: Thresholds | None = None,
        overrides: tuple[Override, ...] = (),
        kept: Kept | None = None,
        ingest: IngestThresholds | None = None,
    ) -> None:
        self._base = base or Thresholds()
        self._overrides = overrides
        self._decided: dict[tuple[str, str, str | None], Thresholds] = {}
        self.kept = kept or Kept()
        self.ingest = ingest or IngestThresholds()

    def of(self, gateway: str, domain: str | None, sensor: str | None = None) -> Thresholds:
        """Return the thresholds for a gateway, or for a sensor of it.

        Args:
            gateway: its id.
            domain: where it stands; None if nobody knows.
            sensor: the sensor's name.

        """
        if not self._overrides:
            return self._base
        key = (gateway, domain or "", sensor)
        if (found := self._decided.get(key)) is None:
            if len(self._decided) >= _KEPT_DECISIONS:
                self._decided.clear()
            fitting = [each.changes for each in self._overrides if each.fits(*key)]
            found = self._decided[key] = _changed(self._base, fitting)
        return found


def read(text: str) -> AlertRules:
    """Read rules from TOML.

    Raises:
        RulesError: not TOML, a key unknown, or a value of a wrong type or out of range.

    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesError(str(error)) from error
    tables = document.pop("override", [])
    kept = _converted(document.pop("kept", {}), Kept, "kept")
    ingest = _converted(document.pop("ingest", {}), IngestThresholds, "ingest")
    base = _converted(document, Thresholds, "")
    if not isinstance(tables, list) or len(tables) > MAX_OVERRIDES:
        raise RulesError(f"override: not an array of at most {MAX_OVERRIDES} tables")
    overrides = tuple(_override(table, base, at) for at, table in enumerate(tables))
    return AlertRules(base, overrides, kept, ingest)


def _override(table: Any, base: Thresholds, at: int) -> Override:
    where = f"override[{at}]"
    if not isinstance(table, dict):
        raise RulesError(f"{where}: is not a table")
    changes = dict(table)
    patterns = [changes.pop(name, "*") for name in ("gateway", "domain", "sensor")]
    for name, pattern in zip(("gateway", "domain", "sensor"), patterns, strict=True):
        if not isinstance(pattern, str):
            raise RulesError(f"{where}.{name}: {pattern!r} is not a text")
    _converted(changes, Thresholds, where)
    override = Override(patterns[0], patterns[1], patterns[2], changes)
    try:
        _changed(base, [changes])
    except msgspec.ValidationError as error:
        raise RulesError(named(error, where)) from error
    return override


def _changed(base: Thresholds, changes: list[Mapping[str, Mapping[str, Any]]]) -> Thresholds:
    document = msgspec.to_builtins(base)
    for each in changes:
        for kind, keys in each.items():
            document[kind] |= keys
    return msgspec.convert(document, Thresholds)


def _converted(table: Any, form: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(table, form)
    except msgspec.ValidationError as error:
        raise RulesError(named(error, where)) from error
