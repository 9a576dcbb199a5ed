"""Rules by which the watch raises alerts about the job itself, and about its collectors."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cloud_ingest.fleet.kinds import KindRule

_Positive = Annotated[float, Meta(gt=0)]


class IngestBehind(KindRule, frozen=True, kw_only=True):
    """A rule: an alert when what stood in a spool ``opens-s`` ago is not in the tables.

    It clears when what stands there is in the tables within ``clears-s``.
    """

    opens_s: _Positive = 300.0
    clears_s: _Positive = 60.0

    def __post_init__(self) -> None:
        if not self.clears_s < self.opens_s:
            raise ValueError(
                f"clears-s {self.clears_s:g} is not less than opens-s {self.opens_s:g}"
            )


class IngestFailing(KindRule, frozen=True, kw_only=True):
    """The query was begun again, or the job killed, ``times`` within ``window-s``.

    It clears when neither happened for ``window-s``.
    """

    times: Annotated[int, Meta(ge=1, le=32)] = 3
    window_s: _Positive = 3_600.0


class QuarantineGrowing(KindRule, frozen=True, kw_only=True):
    """At least ``least`` messages and this ``share`` of a ``window-s`` went to quarantine.

    It clears when the share is half of that.
    """

    share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    least: Annotated[int, Meta(ge=1)] = 100
    window_s: Annotated[float, Meta(ge=60, le=86_400)] = 600.0


class CollectorSilent(KindRule, frozen=True, kw_only=True):
    """A collector's ``status.json`` has been the same for ``after-s``; clears when it changes."""

    after_s: Annotated[float, Meta(ge=10)] = 60.0


class CollectorDisk(KindRule, frozen=True, kw_only=True):
    """A collector's disk refused something; clears after ``clears-s`` without."""

    clears_s: _Positive = 300.0


class IngestThresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """All kinds of alerts about the job and its collectors."""

    behind: IngestBehind = IngestBehind()
    failing: IngestFailing = IngestFailing()
    quarantine_growing: QuarantineGrowing = QuarantineGrowing()
    collector_silent: CollectorSilent = CollectorSilent()
    collector_disk: CollectorDisk = CollectorDisk()
