"""One body of many gateways' answers to a request: SenML (RFC 8428) or a list in CBOR.

In SenML each gateway has a record ``<gateway>/.status`` with its response code as text, and then
the records of its answer, if that is SenML; else one record with its body, as text or as data. All
names begin with the gateway's id. In CBOR (60) each row is ``[gateway, code, format, body]``; the
code is the byte of CoAP, the format null if there is none.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from tree_handler.remote.resource import ResourceResponse

TEXT: Final = 0
CBOR: Final = 60
SENML_JSON: Final = 110
SENML_CBOR: Final = 112
FORMATS: Final = (SENML_JSON, SENML_CBOR, CBOR)
"""Those that may be asked for; the first is what else is given."""
GATEWAY_TIMEOUT: Final = 0xA4
NAME_CHARACTERS_MAX: Final = 1_024
"""Of a record: a base name would else be repeated in each, many times what its gateway sent."""
MAX_RECORDS: Final = 10_000
"""Of one gateway."""
_MOST: Final = 1e300
"""Of numbers: two of them are still one."""

_LABELS: Final = {"n": 0, "u": 1, "v": 2, "vs": 3, "vb": 4, "s": 5, "t": 6, "ut": 7, "vd": 8}
"""Of SenML in CBOR (RFC 8428, table 4)."""
_NO_ANSWER: Final = ResourceResponse(GATEWAY_TIMEOUT)

TargetResponse = tuple[str, ResourceResponse | None]
"""A gateway, and its answer; None if there was none in time."""
_Record = dict[str, Any]


def encode(results: Sequence[TargetResponse], path: tuple[str, ...], form: int) -> bytes:
    """Return all answers in one of `FORMATS`.

    Args:
        results: of all gateways.
        path: what they were asked for.
        form: which of the formats.

    """
    whole = [(gateway_id, _NO_ANSWER if one is None else one) for gateway_id, one in results]
    if form == CBOR:
        rows = [[name, one.code, one.content_format, one.payload] for name, one in whole]
        return _cbor(rows)
    records = [record for name, one in whole for record in _records(name, one, path)]
    if form == SENML_CBOR:
        return _cbor([{_LABELS[key]: v for key, v in one.items()} for one in records])
    for record in records:
        if "vd" in record:  # RFC 8428, section 5
            record["vd"] = base64.urlsafe_b64encode(record["vd"]).rstrip(b"=").decode()
    return json.dumps(records, separators=(",", ":"), allow_nan=False).encode()


def _cbor(rows: list[Any]) -> bytes:
    import cbor2  # noqa: PLC0415  # only where it is used

    return cbor2.dumps(rows)


def _records(gateway_id: str, response: ResourceResponse, path: tuple[str, ...]) -> list[_Record]:
    code = f"{response.code >> 5}.{response.code & 31:02d}"
    status = {"n": f"{gateway_id}/.status", "vs": code}
    if not response.is_success or not response.payload:
        return [status]
    if response.content_format == SENML_JSON:
        try:
            return [status, *resolved(response.payload, gateway_id)]
        except ValueError:
            pass  # it is given as it is
    name = f"{gateway_id}/{_name(path)}"
    if response.content_format == TEXT:
        try:
            return [status, {"n": name, "vs": response.payload.decode()}]
        except UnicodeDecodeError:
            pass
    return [status, {"n": name, "vd": response.payload}]


def resolved(pack: bytes, gateway_id: str) -> list[_Record]:
    """Return the records of a pack, each saying all by itself (RFC 8428, section 4.6).

    Args:
        pack: SenML in JSON.
        gateway_id: of the gateway whose records they are: all names begin with it.

    Raises:
        ValueError: it is no such pack.

    """
    try:
        rows = json.loads(pack, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(rows, list) or len(rows) > MAX_RECORDS:
        raise ValueError("no list of records")
    base: _Record = {}
    found = []
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError("no record")  # noqa: TRY004  # of a document, not of a program
        base |= {key: row[key] for key in ("bn", "bt", "bu", "bv", "bs") if key in row}
        record = _resolved(row, base, gateway_id)
        if len(record) > 1:
            found.append(record)
    return found


def _resolved(row: _Record, base: _Record, gateway_id: str) -> _Record:
    name = _text(base.get("bn", "")) + _text(row.get("n", ""))
    if not name.startswith(f"{gateway_id}/"):
        name = f"{gateway_id}/{name}"
    if len(name) > NAME_CHARACTERS_MAX:
        raise ValueError("a name that is too long")
    record: _Record = {"n": name}
    unit = row.get("u", base.get("bu"))
    if unit is not None:
        record["u"] = _text(unit)
    for key, of_base in (("v", "bv"), ("s", "bs")):
        if key in row or (key == "v" and of_base in base and not {"vs", "vb", "vd"} & row.keys()):
            record[key] = _sum(row.get(key, 0), base.get(of_base, 0))
    if "vs" in row:
        record["vs"] = _text(row["vs"])
    if "vb" in row:
        if not isinstance(row["vb"], bool):
            raise ValueError("vb")
        record["vb"] = row["vb"]
    if "vd" in row:
        data = _text(row["vd"])
        record["vd"] = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
    if "t" in row or "bt" in base:
        record["t"] = _sum(row.get("t", 0), base.get("bt", 0))
    if "ut" in row:
        record["ut"] = _sum(row["ut"])
    return record


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")  # noqa: TRY004  # of a document, not of a program
    value.encode()  # half a surrogate pair is no text
    return value


def _sum(*values: Any) -> float:
    total: float = 0
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError("no number")  # noqa: TRY004  # of a document, not of a program
        if not abs(value) <= _MOST:
            raise ValueError("a number that has no place")
        total += value
    return total


def _no_number(name: str) -> float:
    raise ValueError(name)


def _name(path: tuple[str, ...]) -> str:
    """Return a path as a name of SenML, which has few characters (RFC 8428, section 4.5.1)."""
    kept = "/".join(path)
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "-:./_") else "_" for one in kept
    )
