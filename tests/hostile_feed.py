"""Everything that anybody can publish, in a spool, and whether the tables have all of it.

Payloads of every kind, good ones and wrong ones; numbers, times and names at their ends; types that
change from one message to the next; clocks that are years off; gaps as large as numbers go.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import deltalake
import msgpack

from cloud_ingest.ingest.decoding import UNSURE
from cloud_ingest.spool.receipts import PAIR, SUFFIX
from tree_handler import batch
from tree_handler.batch import Entry
from tree_handler.flags import Flags
from tree_handler.members.member import MemberRecord

Stamp = tuple[str, int, bool, int]
"""Origin, boot epoch, whether logged, and number."""

NOW_US: Final = 1_760_000_000_000_000
YEAR_US: Final = 31_556_952_000_000
MAX_US: Final = 253_402_300_799_000_000
RULES: Final = """
[[mapping]]
format = "json"
topic = "m/json/{device}"
time = "$.t"
[[mapping.measurements]]
sensor = "{device}"
value = "$.v"
[[mapping.measurements]]
sensor = "$.n"
value = "$.w"
optional = true
[[mapping]]
format = "text"
topic = "m/text/#"
sensor = "{topic}"
[[mapping]]
format = "raw"
topic = "m/raw/#"
sensor = "{topic}"
[[mapping]]
format = "senml"
topic = "m/senml/#"
[[mapping]]
format = "sparkplug"
topic = "spBv1.0/#"
"""

_NUMBERS: Final = (
    *(0, 1, -1, 0.5, -0.0, 1e308, -1e308, 5e-324, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)),
    *(2**64 - 1, 1.7976931348623157e308, 200_000_000_000, -62_135_596_800, 253_402_300_799),
    *(253_402_300_800, -62_135_596_801, 9_007_199_254, -7_226_640_000, 1_760_000_000, 1e18),
    *(math.inf, -math.inf, math.nan),
)
_NAMES: Final = (
    *("t", "host/load1", "", "a" * 200, "a" * 100_000, "ü" * 3_000, "\U0001f321", "a\x00b", "\n"),
    *("\ufffe", "a/" * 500, "'; DROP", "$[0].v", "\u202e", "gw-0/", "gw-0/x", " "),
)
_TOPICS: Final = (
    *("campus/north/gw/any", "m/json/d", "m/text/x", "m/raw/x", "m/senml/x", "a" * 65_000),
    *("spBv1.0/g/DDATA/n/d", "spBv1.0/g/NBIRTH/n", "ü/\x7f"),
)
_TEXTS: Final = (b"21.5", b"true", b"-1e999", b"1" * 5_000, b"0x1f", b".", b"NaN", b"Infinity")
_HEADS: Final = (b"", b"\x80", b"\xc1", b"\xde\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x86", b"\xff")


@dataclass(slots=True)
class HostileFeed:
    """Writes a spool.

    Attributes:
        folder: of the spool.
        chance: what it draws from; the same seed writes the same spool.
        published: what clients' messages it holds, each once or more often.
    """

    folder: Path
    chance: random.Random
    published: set[Stamp] = field(default_factory=set)
    _start: int = 0
    _data: bytearray = field(default_factory=bytearray)
    _times: bytearray = field(default_factory=bytearray)
    _next: dict[tuple[str, int, bool], int] = field(default_factory=dict)
    _frames: list[bytes] = field(default_factory=list)

    def segment(self, batches: int) -> None:
        """Write a segment of so many batches; it may be read at once."""
        self.folder.mkdir(exist_ok=True)
        for _ in range(batches):
            self._batch()
        path = self.folder / f"{self._start:020d}.log"
        path.write_bytes(self._data)
        path.with_suffix(SUFFIX).write_bytes(self._times)
        (self.folder / "synced").write_text(f"{path.name} {len(self._data)}\n")
        self._start += len(self._data)
        self._data.clear()
        self._times.clear()

    def _batch(self) -> None:
        chance = self.chance
        kind = chance.randrange(20)
        if kind == 0 and self._frames:  # a copy
            frame = chance.choice(self._frames)
        elif kind == 1:
            frame = self._between_gateways()
        elif kind == 2:
            frame = self._passed()
        elif kind == 3:
            frame = chance.randbytes(chance.randrange(1, 300))
        else:
            frame = self._clients()
            self._frames.append(frame)
        self._data += frame
        if chance.random() < 0.7:
            self._times += PAIR.pack(len(self._data), self._clock())

    def _clients(self) -> bytes:
        chance = self.chance
        origin, epoch = self._life()
        flags = chance.choice((Flags.LOGGED, Flags.LOGGED, Flags.NONE))
        entries = [self._entry(origin) for _ in range(chance.choice((1, 1, 2, 5, 40)))]
        stream = (origin, epoch, bool(flags & Flags.LOGGED))
        first = self._number(stream, len(entries))
        self.published |= {(*stream, first + i) for i in range(len(entries))}
        return batch.encode(
            origin, epoch, first, entries, flags=flags, origin_time_us=self._clock(any_at_all=True)
        )

    def _life(self) -> tuple[str, int]:
        chance = self.chance
        origin = chance.choice(("gw-0", "gw-1", "gw-2", "ü" * 100, "a/b", "?", "\x00", " "))
        return origin, chance.choice((0, 1, 1, 1, 2**32 - 1, chance.randrange(2**32)))

    def _number(self, stream: tuple[str, int, bool], count: int) -> int:
        """The next number, or one beyond a gap: now and then the largest that there can be."""
        number = self._next.get(stream, 1)
        gap = self.chance.random()
        if gap < 0.02:
            number = max(number, batch.MAX_NUMBER - 10_000)
        elif gap < 0.2:
            number += self.chance.randrange(1, 50)
        self._next[stream] = min(number + count, batch.MAX_NUMBER - 1_000)
        return number

    def _entry(self, origin: str) -> Entry:
        chance = self.chance
        payload = self._payload()
        topic = chance.choice((*_TOPICS, f"d/g/{origin}/$status"))
        return Entry(topic, payload, qos=chance.choice((0, 1, 2)), retain=chance.random() < 0.1)

    def _payload(self) -> bytes:
        kinds: tuple[Callable[[], bytes], ...] = (
            *(self._record, self._senml, self._json, self._status, self._nested, self._sparkplug),
            lambda: self.chance.choice(_TEXTS),
            lambda: self.chance.choice(_HEADS) + self.chance.randbytes(self.chance.randrange(40)),
        )
        made = self.chance.choice(kinds)()
        if self.chance.random() < 0.1 and made:  # damaged
            at = self.chance.randrange(len(made))
            made = made[:at] + self.chance.randbytes(1) + made[at + 1 :]
        return made

    def _value(self) -> Any:
        """Of any type, at its ends."""
        chance = self.chance
        kinds: tuple[Any, ...] = (
            chance.choice(_NUMBERS),
            chance.choice(_NAMES),
            None,
            True,
            [],
            {},
            b"\x00\xff",
        )
        return chance.choice((*kinds, chance.choice(_NUMBERS), chance.random()))

    def _record(self) -> bytes:
        chance = self.chance
        made: dict[Any, Any] = {
            "r": chance.choice((1, 1, 2, 3, 2**63)),
            "n": chance.choice(_NAMES),
            "u": "Cel",
            "t": chance.choice(_NUMBERS),
            "i": chance.choice((1, 2**63 - 1, 2**63, -1)),
            chance.choice(("v", "vs", "vb", "vd", "x", "x_")): self._value(),
        }
        if chance.random() < 0.5:
            made |= {"v": chance.random(), "t": float(chance.choice(_NUMBERS))}
        if chance.random() < 0.2:
            made["q"] = chance.choice(("good", "bad", "uncertain", "x", 1))
        if chance.random() < 0.2:
            made["g"] = {chance.choice(_NAMES): chance.choice((*_NAMES, 1))}
        if chance.random() < 0.2:
            made["z"] = chance.choice((msgpack.ExtType(5, b"\x00"), msgpack.Timestamp(2**34 - 1)))
        for key in [key for key in made if chance.random() < 0.03]:
            made[key] = self._value()
        return _packed(made)

    def _senml(self) -> bytes:
        chance = self.chance
        keys = ("bn", "bt", "bu", "bv", "bs", "bver", "n", "u", "v", "vs", "vb", "vd", "t", "s")
        likely = [{"n": "t", "v": chance.choice(_NUMBERS), "t": chance.choice(_NUMBERS)}]
        any_at_all = [
            {chance.choice(keys): self._value() for _ in range(chance.randrange(1, 5))}
            for _ in range(chance.choice((1, 2, 20)))
        ]
        return _json(chance.choice((likely, any_at_all)))

    def _json(self) -> bytes:
        chance = self.chance
        keys = ("value", "v", "w", "t", "n", "a" * 100_000, "\ud800")
        return _json({chance.choice(keys): self._value() for _ in range(4)})

    def _nested(self) -> bytes:
        depth = self.chance.choice((10, 500, 30_000))
        return self.chance.choice(
            (b"[" * depth, b'{"value":' * depth, b"[" * depth + b"]" * depth, b"\x81\xa1x" * depth)
        )

    def _status(self) -> bytes:
        chance = self.chance
        keys = ("e", "up", "co", "tc", "df", "dt", "dw", "m", "l1", "qm", "cl", "rc", "el", "rt")
        made: dict[str, Any] = {"r": 1, "e": chance.choice((1, 5, 86_400, 1e-300))}
        for key in chance.sample(keys, chance.randrange(6)):
            made[key] = chance.choice((*_NUMBERS, 10, 0.5, "gw-1"))
        made["ln"] = [["gw-1", chance.choice((1.0, 1e9, 1e-300)), "root", "forwarding"]]
        return _packed(made)

    def _sparkplug(self) -> bytes:
        chance = self.chance
        stamp = _varint(chance.choice((0, 1, 1_760_000_000_000, 2**63, 2**64 - 1)))
        metric = b"\x0a\x01t\x18" + stamp + b"\x20\x0a" + struct.pack("<Bd", 0x69, chance.random())
        return b"\x08" + stamp + b"\x12" + _varint(len(metric)) + metric

    def _between_gateways(self) -> bytes:
        chance = self.chance
        origin, epoch = self._life()
        try:
            record = MemberRecord(origin, 1, 1, chance.choice(("d", "e", "")), "g", "10.0.0.1", 1)
            payload = record.encode()
        except ValueError:
            payload = chance.randbytes(20)
        if chance.random() < 0.3:
            payload = self._payload()
        entries = [Entry(f"$hedgerow/member/{origin}", payload, qos=1)]
        return batch.encode(
            origin,
            epoch,
            self._number((f"${origin}", epoch, True), 1),
            entries,
            flags=Flags.LOGGED | Flags.CONTROL,
            origin_time_us=self._clock(any_at_all=True),
        )

    def _passed(self) -> bytes:
        origin, epoch = self._life()
        first = self.chance.choice((1, 2**40, 2**61))
        count = self.chance.choice((1, 1_000, batch.MAX_PASSED))
        return batch.passed((origin, epoch), first, first + count - 1)[0]

    def _clock(self, *, any_at_all: bool = False) -> int:
        """Microseconds since 1970: as they are, or of a clock that is off."""
        off_us = self.chance.choice((0, 0, 0, 90_000_000, -90_000_000))
        off_us += self.chance.choice((0, 0, 0, 1, 40, -40, 700)) * YEAR_US
        clock = max(0, NOW_US + off_us + self.chance.randrange(10**9))
        if any_at_all and self.chance.random() < 0.1:
            return self.chance.choice((0, 1, 2**53, MAX_US, MAX_US + 1, 2**63, 2**64 - 1))
        return min(clock, MAX_US)


def missing_and_doubled(tables: Path, published: set[Stamp]) -> tuple[set[Stamp], set[Stamp]]:
    """Return the published stamps that neither table has, and those that stand more than once.

    What is in quarantine since nobody knows whether telemetry has it may be there beside.
    """
    sure, unsure = Counter[Stamp](), set[Stamp]()
    columns = ["origin", "boot_epoch", "logged", "sequence"]
    for name in ("telemetry", "quarantine"):
        wanted = [*columns, "reason"] if name == "quarantine" else columns
        for row in deltalake.DeltaTable(tables / name).to_pyarrow_table(columns=wanted).to_pylist():
            stamp = row["origin"], row["boot_epoch"], row["logged"], row["sequence"]
            if row.get("reason") == UNSURE:
                unsure.add(stamp)
            elif row["origin"] is not None:  # else damaged bytes
                sure[stamp] += 1
    missing = published - sure.keys() - unsure
    return missing, {stamp for stamp, count in sure.items() if count > 1}


def _packed(made: dict[Any, Any]) -> bytes:
    try:
        return bytes(msgpack.packb(made))
    except (OverflowError, ValueError):
        return b"\x81\xa1n\xa1t"


def _json(made: Any) -> bytes:
    return json.dumps(made, default=lambda data: "AP8").encode("utf-8", "surrogatepass")


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
