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
from tree_handler.proof import Verdict
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


@pytest.mark.parametrize("ed25519", [False, True])
def test_a_signature_is_proven_forged_or_of_a_key_that_nobody_knows(
    tmp_path: Path, ed25519: bool
) -> None:
    issued = Authority(tmp_path).issue("gw-a", is_gateway=True, ed25519=ed25519)
    ring = HandedCertificates(msgpack.packb([[issued.der]]))
    signature = OwnKey.read(issued.certificate, issued.key).signer.sign(b"message")
    assert ring.verify("gw-a", b"message", signature) == Verdict.PROVEN
    assert ring.verify("gw-a", b"another", signature) == Verdict.FORGED
    assert ring.verify("gw-a", b"message", signature[:4]) == Verdict.FORGED
    assert ring.verify("gw-b", b"message", signature) == Verdict.UNKNOWN
    assert ring.verify("gw-a", b"message", b"none" + signature[4:]) == Verdict.UNKNOWN
    assert ring.knows_key("gw-a", signature)
    assert ring.knows_key("gw-a", signature[:4])
    assert not ring.knows_key("gw-b", signature)
    assert not ring.knows_key("gw-a", b"none" + signature[4:])


def test_a_collector_only_receives_and_what_says_that_it_is_a_gateway_too_does_not(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    chains = [
        authority.issue("collector", is_collector=True),
        authority.issue("both", is_collector=True, roles=["gateway"]),
        authority.issue("was-one", is_collector=True),
        authority.issue("was-one", is_gateway=True),
        authority.issue("gateway", is_gateway=True),
        authority.issue("nothing"),  # it has no alternative names at all
    ]
    ring = HandedCertificates(msgpack.packb([[each.der] for each in chains]))
    names = ("collector", "both", "was-one", "gateway", "nothing", "unknown")
    assert [name for name in names if ring.only_receives(name)] == ["collector"]
