"""Changes of who may do what, as a gateway takes them over: into its audit trail.

At each start and reload the names in its files are held against those of the last time, which a
small file in the state folder keeps, with a digest of what belongs to each: so a change is noted
that was made while the gateway was down, and by whatever hand. The digests are as well protected as
the keys themselves; the trail has names alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.base.event_log.audit import FILE_NAME, AuditTrail
from gateway.base.kept_file import KeptFile
from gateway.node.signing.revocations import FILE_NAME as SPREAD
from gateway.process.configuration.config import GatewaySettings
from gateway.trust.credentials.tls_file_faults import TlsFileError

SEEN = "audited.json"
_BEGINS = "the trail begins"
_WITHOUT = "the audit trail does not tell what has changed since this was written, and begins again"
_WITHOUT_TRAIL = "changes of access that it told of are not known any more"
NAMES_MAX = 50
"""Of one change; how many more there are is said."""

Names = Mapping[str, str]
"""A digest by name."""

_log = logging.getLogger(__name__)


def note(settings: GatewaySettings, who: str) -> str:
    """Note what has changed since the last time.

    Args:
        settings: of a gateway that goes by its files now.
        who: made it read them.

    Returns:
        What is not noted, which the log says too: the next call notes it. Empty if all is noted.

    """
    unread: dict[str, str] = {}
    try:
        _note(settings, who, unread)
    except OSError as error:
        _log.error("the audit trail can't be written: %s", error)
        return str(error)
    for field, why in unread.items():
        _log.error("the audit trail does not tell what has changed of %s: %s", field, why)
    return "; ".join(f"{field}: {why}" for field, why in unread.items())


def _note(settings: GatewaySettings, who: str, unread: dict[str, str]) -> None:
    """Note what has changed, and put into ``unread`` which files can't be read, and why."""
    folder = settings.gateway.state_dir
    seen = KeptFile(folder / SEEN, _WITHOUT, is_durable=True)
    was_begun = seen.was_there()
    before = seen.read(_seen)
    after = {field: dict(names) for field, names in _pictures(settings, unread)}
    if before is not None:  # of what can't be read now nothing is known to have changed
        after |= {field: before[field] for field in unread if field in before}
    trail, kept = AuditTrail(folder / FILE_NAME), KeptFile(folder / FILE_NAME, _WITHOUT_TRAIL)
    if not kept.path.exists() or not kept.path.stat().st_size:
        kept.miss()
    elif before is None:
        was_begun = True
    if after == before:
        return
    if before is None:
        # What changed since the last time is not known, and the trail has to say that.
        begins = "the trail begins again, changes before are not known" if was_begun else _BEGINS
        trail.append(who, begins, None, files=sorted(after))
    else:
        for field in sorted({*after, *before}):
            change = _difference(before.get(field, {}), after.get(field, {}))
            if change:
                trail.append(who, f"{field} changed", None, **change)
    kept.is_kept()
    seen.write(json.dumps(after).encode())


def _difference(before: Names, after: Names) -> dict[str, list[str]]:
    found = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "replaced": [name for name in after if before.get(name, after[name]) != after[name]],
    }
    return {what: _bounded(names) for what, names in found.items() if names}


def _bounded(names: list[str]) -> list[str]:
    if len(names) <= NAMES_MAX:
        return names
    return [*names[:NAMES_MAX], f"and {len(names) - NAMES_MAX} more"]


def _seen(data: bytes) -> dict[str, dict[str, str]]:
    found = json.loads(data)
    if not isinstance(found, dict) or not all(isinstance(names, dict) for names in found.values()):
        raise ValueError("no names by file")
    return found


def _pictures(settings: GatewaySettings, unread: dict[str, str]) -> Iterator[tuple[str, Names]]:
    """Yield what each file that the configuration names has; of one that can't be read, why not."""
    ways: dict[str, Callable[[Path], Names]] = {
        "psk_file": _keys,
        "password_file": _users,
        "policy_file": _whole,
        "certificate_file": _certificates,
        "client_ca_file": _certificates,
        "client_crl_file": _revoked,
    }
    for section in ("mqtt", "coap", "console", "access"):
        for name, way in ways.items():
            path = getattr(getattr(settings, section), name, None)
            if path is None:
                continue
            try:
                names = way(path)
            except (OSError, TlsFileError, KeystoreError) as error:
                unread[f"{section}.{name}"] = str(error)
            else:
                yield f"{section}.{name}", names
    spread = settings.gateway.state_dir / SPREAD
    if spread.exists():
        try:
            names = _revoked(spread)
        except TlsFileError as error:
            unread["revocations of neighbours"] = str(error)
        else:
            yield "revocations of neighbours", names


def _keys(path: Path) -> Names:
    found = keystore.load(path)
    return {one: _digest(found.key_of(one.encode()) or b"") for one in found.identities()}


def _users(path: Path) -> Names:
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    lines = (line.strip() for line in text.split("\n"))  # as `Passwords.parse` has lines
    return {
        line.partition(":")[0]: _digest(line.encode())
        for line in lines
        if line and not line.startswith("#")
    }


def _whole(path: Path) -> Names:
    return {_digest(path.read_bytes()): ""}


def _certificates(path: Path) -> Names:
    from gateway.process.access import x509_pictures  # noqa: PLC0415  # X.509 takes a while to load

    if x509_pictures.is_store(path):
        return _whole(path)
    return {name: _digest(der) for name, der in x509_pictures.certificates(path)}


def _revoked(path: Path) -> Names:
    from gateway.process.access import x509_pictures  # noqa: PLC0415  # as above

    return dict(x509_pictures.revoked(path))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
