"""The job checks the signatures of a spool once more, if it is asked to."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest
from authority import Authority, Issued

from cloud_ingest.ingest.scan import scan
from cloud_ingest.ledger.number_ledger import NumberLedger
from cloud_ingest.spool.proof import CertificatesError, HandedCertificates, read_certificates
from cloud_ingest.spool.segments import SpoolRange
from gateway.node.signing.own import OwnKey
from gateway.node.signing.ring import CertificateRing
from gateway.node.signing.trust import Trust
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.seal import Seals


def sealed(issued: Issued, origin: str, flags: int = Flags.LOGGED | Flags.CONTROL) -> bytes:
    signer = OwnKey.read(issued.certificate, issued.key).signer
    seal = Seals(signer, CertificateRing(Trust([]), 0.0), "t").seal
    rows = [Entry("t", b"x", 1).row()]
    return batch.make(origin, 1, 1, rows, flags=flags, origin_time_us=0, seal=seal)[0]


def refused(tmp_path: Path, certificates: Path, *frames: bytes) -> list[str]:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(frames))
    seals = Seals(None, HandedCertificates(read_certificates(certificates)), "t")
    whole = SpoolRange(str(tmp_path), path.name, 0, path.stat().st_size)
    return [one.why for one in scan([whole], NumberLedger(), {}, seals).damage]


@pytest.mark.parametrize("ed25519", [False, True])
def test_a_spool_is_read_whose_batches_are_their_origins(tmp_path: Path, ed25519: bool) -> None:
    authority = Authority(tmp_path)
    a, b = (authority.issue(name, is_gateway=True, ed25519=ed25519) for name in ("gw-a", "gw-b"))
    file = tmp_path / "certificates"
    file.write_bytes(msgpack.packb([[a.der], [b.der]]))
    note, _ = batch.passed(("gw-a", 1), 2, 5, Flags.PASSED | Flags.LOCAL)
    true = sealed(a, "gw-a")
    assert refused(tmp_path, file, true, note, sealed(b, "gw-b")) == []
    unsigned = batch.encode("gw-a", 1, 1, [Entry("t", b"x", 1)], flags=3, origin_time_us=0)
    for wrong in (sealed(b, "gw-a"), unsigned):
        (why,) = refused(tmp_path, file, true, wrong)
        assert "signature is un" in why


def test_a_file_that_no_collector_keeps_is_named(tmp_path: Path) -> None:
    file = tmp_path / "certificates"
    with pytest.raises(CertificatesError, match="No such file"):
        read_certificates(file)
    for data in (b"no msgpack", msgpack.packb([[b"no certificate"]]), msgpack.packb(7)):
        file.write_bytes(data)
        with pytest.raises(CertificatesError, match="as a collector keeps them"):
            read_certificates(file)
