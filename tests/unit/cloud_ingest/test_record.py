"""The telemetry record on the wire: a msgpack map whose wrong field is named."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.record import Record, RecordError, decode

FIELDS: dict[str, Any] = {"r": 1, "n": "host/load1", "u": "Cel", "v": 1.5, "t": 2.25, "i": 7}
RECORD = Record("host/load1", "Cel", 1.5, 2.25, 7)


def test_a_record_is_a_map_with_the_labels_of_senml() -> None:
    assert RECORD.encode() == msgpack.packb(FIELDS)
    assert decode(msgpack.packb(FIELDS)) == RECORD


def test_keys_of_later_versions_are_ignored_and_whole_numbers_are_readings() -> None:
    later = FIELDS | {"v": 3, "t": 4, "x": [1, {"y": None}]}
    read = decode(msgpack.packb(later))
    assert (read.value, read.time_s) == (3.0, 4.0)
    assert isinstance(read.value, float)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("r", value) for value in (2, "1", None)),
        *(("n", value) for value in (1, None, b"a")),
        *(("u", value) for value in (1, None)),
        *(("v", value) for value in ("1", True, None)),
        *(("t", value) for value in ("1", False)),
        *(("i", value) for value in (1.5, True, "7", None)),
    ],
)
def test_a_field_of_a_wrong_type_is_named(key: str, value: object) -> None:
    with pytest.raises(RecordError, match=rf"\$\.{key}\b"):
        decode(msgpack.packb(FIELDS | {key: value}))


@pytest.mark.parametrize("key", FIELDS)
def test_a_field_that_is_missing_is_named(key: str) -> None:
    with pytest.raises(RecordError, match=f"`{key}`"):
        decode(msgpack.packb({k: v for k, v in FIELDS.items() if k != key}))


@given(st.binary())
def test_any_bytes_are_a_record_or_refused(payload: bytes) -> None:
    try:
        decode(payload)
    except RecordError:
        return
    assert isinstance(msgpack.unpackb(payload, strict_map_key=False), dict)


@given(st.text(), st.floats(), st.integers(1, 2**63 - 1))
def test_a_record_is_read_as_it_was_written(name: str, value: float, number: int) -> None:
    record = Record(name, "", value, 0.0, number)
    assert repr(decode(record.encode())) == repr(record)
