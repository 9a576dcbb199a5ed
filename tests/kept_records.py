"""Files of a gateway's state folder with records of others, as it leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gateway.base.kept_file import KeptFile
from gateway.base.record_file import RecordFile


def keep(path: Path, records: Iterable[bytes]) -> None:
    """Write the file of a gateway that is stopped: of what its log has dropped, only that tells.

    Args:
        path: of the file.
        records: in their wire form, instead of those that it has.

    """
    RecordFile(KeptFile(path, "records that a test needs"), path.name, _forget).save(
        lambda: records
    )


def _forget(_record: bytes) -> None:
    """Let what the file had go."""
