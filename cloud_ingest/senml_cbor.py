"""SenML packs in CBOR as the maps that their JSON would be (RFC 8428, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NoReturn

from record_formats.record import RecordError

MAX_CBOR_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 16

_NAMES: Final[Mapping[int, str]] = {
    -6: "bs",
    -5: "bv",
    -4: "bu",
    -3: "bt",
    -2: "bn",
    -1: "bver",
    0: "n",
    1: "u",
    2: "v",
    3: "vs",
    4: "vb",
    5: "s",
    6: "t",
    7: "ut",
    8: "vd",
}
"""Labels that stand for names (table 6)."""
_SELF_DESCRIBED: Final = bytes.fromhex("d9d9f7")
"""Tag 55799 before a document says that it is CBOR (RFC 8949, section 3.4.6)."""


def is_cbor_pack(payload: bytes) -> bool:
    """Return whether bytes begin as an array of CBOR whose first item is a map."""
    payload = payload.removeprefix(_SELF_DESCRIBED)
    if not payload or not 0x80 <= payload[0] <= 0x9F:
        return False
    # Behind the head stand as many bytes of the array's length as it says (RFC 8949, section 3).
    extra = {0x98: 1, 0x99: 2, 0x9A: 4, 0x9B: 8}.get(payload[0], 0)
    if payload[0] in range(0x9C, 0x9F):
        return False
    first = payload[1 + extra : 2 + extra]
    return bool(first) and 0xA0 <= first[0] <= 0xBF


def senml_records(payload: bytes) -> list[Any]:
    """Read a pack of CBOR; its records with SenML's names for labels.

    Raises:
        RecordError: it is no CBOR, or no array of maps, or one has a label twice.

    """
    if len(payload) > MAX_CBOR_BYTES:
        raise RecordError(f"{len(payload)} bytes of CBOR, at most {MAX_CBOR_BYTES} are read")
    import cbor2  # noqa: PLC0415  # only where somebody sends it

    try:
        pack = cbor2.loads(
            payload.removeprefix(_SELF_DESCRIBED),
            tag_hook=_refuse_tag,
            semantic_decoders=_NO_TAGS,
            max_depth=MAX_DEPTH,
            allow_duplicate_keys=False,
        )
    except Exception as error:  # the library raises what its types raise
        raise RecordError(f"CBOR: {error}") from error
    if not isinstance(pack, list):
        raise RecordError(f"CBOR: {type(pack).__name__} is no SenML pack")
    return [_named(f"$[{at}]", fields) for at, fields in enumerate(pack)]


def _refuse_tag(*_: object) -> NoReturn:
    raise ValueError("a tag that is no number's")


_NO_TAGS: Final[Mapping[int, Any]] = dict.fromkeys(
    (0, 1, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000),
    _refuse_tag,
)
"""Those that the decoder knows itself, but for large integers (2, 3) and decimal fractions (4)."""


def _named(where: str, fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields  # the pack's reader says what it is
    named: dict[str, Any] = {}
    for key, value in fields.items():
        name = _NAMES.get(key) if type(key) is int else key
        if not isinstance(name, str):
            raise RecordError(f"{where}: {key!r:.40} is no label of SenML")
        if name in named:
            raise RecordError(f"{where}: {name[:40]!r} stands twice")
        # A decimal fraction is the number that JSON would have.
        named[name] = float(value) if isinstance(value, Decimal) else value
    return named
