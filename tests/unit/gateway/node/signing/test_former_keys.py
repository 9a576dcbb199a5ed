"""A gateway's former signatures stay provable to newcomers after a roll-over of the authority."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgpack
import pytest
from authority import DAY, Authority, Issued
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.node.signing.fleet_keys import FleetKeys, SigningFiles
from gateway.node.signing.former_keys import (
    MAX_AHEAD_S,
    MAX_FORMER,
    MAX_STATEMENT_BYTES,
    MAX_TAKEN_BACK,
    FormerKey,
    FormerKeys,
    KeyStatement,
)
from gateway.node.signing.own import OwnKey
from gateway.node.signing.own_history import OwnHistory
from gateway.node.signing.ring import CertificateRing
from gateway.node.signing.trust import Trust, UntrustedError
from gateway.trust.certificates.signature_keys import encoded
from tree_handler import batch
from tree_handler.batch import Flags
from tree_handler.proof import Verdict
from tree_handler.seal import LATE_S, Seals

TREE = "hedgerow"
LIFE = 5
"""The life in which gw-a signed under the old authority."""


def own(issued: Issued) -> OwnKey:
    return OwnKey.read(issued.certificate, issued.key)


def trust(*authorities: Authority, revoked: Sequence[bytes] = ()) -> Trust:
    lists = [x509.load_pem_x509_crl(one) for one in revoked]
    found = [x509.load_pem_x509_certificate(one.file.read_bytes()) for one in authorities]
    return Trust(found, lists)


class Fleet:
    """An authority that was rolled over, and gw-a, which ran all through it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "gw-a"
        self.folder.mkdir()
        self.old, self.new = Authority(folder, "old"), Authority(folder, "new")
        self.before = self.old.issue("gw-a", is_gateway=True)
        self.after = self.new.issue("gw-a", is_gateway=True)
        self.a = FleetKeys(SigningFiles(own(self.before), trust(self.old)), self.folder)
        self.a.begin("gw-a", LIFE)
        self.frames = {life: self.batch(own(self.before), life) for life in (LIFE, LIFE + 1)}

    def batch(self, key: OwnKey, life: int) -> bytes:
        rows = [("a/b", 1, b"x")]
        seal = Seals(key.signer, CertificateRing(trust(self.new), time.time()), TREE).seal
        return batch.make("gw-a", life, 1, rows, flags=Flags.LOGGED, origin_time_us=1, seal=seal)[0]

    def lists(self, *revoked: Issued) -> tuple[bytes, bytes]:
        """Return the lists of both authorities after the old one has revoked these certificates."""
        return self.old.revoke(*revoked), self.new.revoke()

    def roll_over(self, revoked: Sequence[bytes] = ()) -> None:
        both = trust(self.old, self.new, revoked=revoked)
        self.a.renew(SigningFiles(self.a_key, both))
        self.a.renew(SigningFiles(own(self.after), both))
        self.a.renew(SigningFiles(own(self.after), trust(self.new)))

    @property
    def a_key(self) -> OwnKey:
        return own(self.before)

    def stated(self) -> bytes:
        statement = self.a.statement
        assert statement is not None
        return statement.data

    def newcomer(self) -> CertificateRing:
        """New hardware, which knows the new authority alone."""
        ring = CertificateRing(trust(self.new), time.time())
        ring.add(own(self.after).chain)
        return ring

    def verdict(self, ring: CertificateRing, life: int) -> Verdict:
        frame = self.frames[life]
        return Seals(None, ring, TREE).check(frame, batch.check(frame))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_new_hardware_proves_lives_from_before_the_roll_over_and_none_behind_it(
    fleet: Fleet,
) -> None:
    fleet.roll_over()
    ring = fleet.newcomer()
    assert fleet.verdict(ring, LIFE) is Verdict.UNKNOWN
    assert ring.take_statement(fleet.stated()) == "gw-a"
    assert ring.take_statement(fleet.stated()) is None
    assert fleet.verdict(ring, LIFE) is Verdict.PROVEN
    assert fleet.verdict(ring, LIFE + 1) is Verdict.UNKNOWN


def test_a_former_key_says_nothing_of_now(fleet: Fleet) -> None:
    fleet.roll_over()
    ring = fleet.newcomer()
    ring.take_statement(fleet.stated())
    seals, word = Seals(own(fleet.before).signer, ring, TREE), b"these numbers are lost"
    assert not seals.has_said("gw-a", word, seals.say(word))
    ring.follow_time(time.time() + LATE_S + DAY.total_seconds())  # nor for ever of what was
    assert fleet.verdict(ring, LIFE) is Verdict.UNKNOWN


def test_a_gateway_that_was_off_while_its_key_was_replaced_states_it_at_its_start(
    fleet: Fleet,
) -> None:
    again = FleetKeys(SigningFiles(own(fleet.after), trust(fleet.new)), fleet.folder)
    again.begin("gw-a", LIFE + 3)
    assert again.statement is not None
    again.save()
    ring = fleet.newcomer()
    ring.take_statement(again.statement.data)
    assert fleet.verdict(ring, LIFE) is Verdict.PROVEN
    assert fleet.verdict(ring, LIFE + 1) is Verdict.UNKNOWN
    # A further start states the same, so that nobody is told anew.
    third = FleetKeys(SigningFiles(own(fleet.after), trust(fleet.new)), fleet.folder)
    third.begin("gw-a", LIFE + 4)
    assert third.statement == again.statement


def test_who_was_told_knows_it_after_a_restart(fleet: Fleet, tmp_path: Path) -> None:
    fleet.roll_over()
    (tmp_path / "gw-b").mkdir()
    files = SigningFiles(own(fleet.new.issue("gw-b", is_gateway=True)), trust(fleet.new))
    b = FleetKeys(files, tmp_path / "gw-b")
    b.ring.add(fleet.a.chain)
    b.ring.take_statement(fleet.stated())
    b.save()
    assert fleet.verdict(FleetKeys(files, tmp_path / "gw-b").ring, LIFE) is Verdict.PROVEN
    (tmp_path / "gw-b" / "former_keys").write_bytes(b"damaged")
    assert fleet.verdict(FleetKeys(files, tmp_path / "gw-b").ring, LIFE) is Verdict.UNKNOWN


def test_nobody_states_a_key_of_another_gateway(fleet: Fleet) -> None:
    fleet.roll_over()
    thief = own(fleet.new.issue("gw-x", is_gateway=True))
    ring = fleet.newcomer()
    ring.add(thief.chain)
    keys = [FormerKey(thief.signer.public_key, int(time.time()), 99)]
    posing = KeyStatement.make("gw-a", int(time.time()), keys, thief.signer)
    with pytest.raises(UntrustedError, match="not proven"):
        ring.take_statement(posing.data)
    # Of itself it may say what it likes; that is no other gateway's history.
    stolen = FormerKey(own(fleet.before).signer.public_key, int(time.time()), 99)
    ring.take_statement(KeyStatement.make("gw-x", int(time.time()), [stolen], thief.signer).data)
    assert fleet.verdict(ring, LIFE) is Verdict.UNKNOWN


def test_what_a_stolen_gateway_states_goes_with_its_certificate(fleet: Fleet) -> None:
    fleet.roll_over()
    ring = fleet.newcomer()
    ring.take_statement(fleet.stated())
    ring.follow_trust(trust(fleet.new, revoked=[fleet.new.revoke(fleet.after)]))
    assert fleet.verdict(ring, LIFE) is Verdict.UNKNOWN
    assert not len(ring.former)
    with pytest.raises(UntrustedError):
        ring.take_statement(fleet.stated())


def test_a_key_that_was_revoked_before_the_roll_over_is_not_stated(fleet: Fleet) -> None:
    fleet.roll_over(revoked=fleet.lists(fleet.before))
    assert fleet.a.statement is None
    assert fleet.a.ring.verify("gw-a", b"now", fleet.a.sign(b"now"))


def test_a_key_that_is_revoked_later_is_taken_back_and_not_believed_of_an_older_statement(
    fleet: Fleet, tmp_path: Path
) -> None:
    both, lists = (fleet.old, fleet.new), fleet.lists(fleet.before)
    fleet.a.renew(SigningFiles(own(fleet.after), trust(*both)))
    first = fleet.stated()
    (tmp_path / "gw-b").mkdir()
    b_key = own(fleet.new.issue("gw-b", is_gateway=True))
    b = FleetKeys(SigningFiles(b_key, trust(*both)), tmp_path / "gw-b")
    for chain in (fleet.a.chain, own(fleet.before).chain):
        b.ring.add(chain)
    b.ring.take_statement(first)
    assert fleet.verdict(b.ring, LIFE) is Verdict.PROVEN
    for keys, key in ((fleet.a, own(fleet.after)), (b, b_key)):
        keys.renew(SigningFiles(key, trust(*both, revoked=lists)))
        keys.renew(SigningFiles(key, trust(fleet.new)))
    assert fleet.verdict(b.ring, LIFE) is Verdict.UNKNOWN  # it saw the list
    b.save()
    again = FleetKeys(SigningFiles(b_key, trust(fleet.new)), tmp_path / "gw-b")
    assert fleet.verdict(again.ring, LIFE) is Verdict.UNKNOWN
    ring = fleet.newcomer()  # it never saw it: what gw-a states now counts, in any order
    for data in (first, fleet.stated(), first):
        ring.take_statement(data)
    assert fleet.verdict(ring, LIFE) is Verdict.UNKNOWN


def test_a_machine_does_not_state_what_another_one_signed_under_its_id(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "fresh").mkdir()
    fresh = FleetKeys(
        SigningFiles(own(fleet.after), trust(fleet.old, fleet.new)), tmp_path / "fresh"
    )
    fresh.ring.add(own(fleet.before).chain)  # a neighbour has told of it
    fresh.begin("gw-a", LIFE + 1)
    fresh.renew(SigningFiles(own(fleet.after), trust(fleet.new)))
    assert fresh.statement is None


def test_the_newest_keys_are_stated_and_a_statement_is_small(fleet: Fleet) -> None:
    both = trust(fleet.old, fleet.new)
    for _ in range(MAX_FORMER + 3):
        fleet.a.renew(SigningFiles(own(fleet.old.issue("gw-a", is_gateway=True)), both))
    fleet.roll_over()
    statement = fleet.a.statement
    assert statement is not None and len(statement.keys) == MAX_FORMER
    assert len(statement.data) < MAX_STATEMENT_BYTES


def test_a_statement_of_a_later_time_is_not_taken(fleet: Fleet) -> None:
    fleet.roll_over()
    far = KeyStatement.make("gw-a", int(time.time()) + 10**6, (), own(fleet.after).signer)
    with pytest.raises(UntrustedError, match="later time"):
        fleet.newcomer().take_statement(far.data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_other_bytes_are_a_statement(fleet: Fleet, data: st.DataObject) -> None:
    if fleet.a.statement is None:
        fleet.roll_over()
    stated = fleet.stated()
    ring = fleet.newcomer()
    at = data.draw(st.integers(0, len(stated) - 1))
    bent = stated[:at] + bytes((stated[at] ^ data.draw(st.integers(1, 255)),)) + stated[at + 1 :]
    for one in (bent, stated[:at], data.draw(st.binary(max_size=200))):
        with suppress(UntrustedError):
            ring.take_statement(one)
    assert fleet.verdict(ring, LIFE) is not Verdict.PROVEN


def test_a_row_that_is_none_is_refused(fleet: Fleet) -> None:
    signer, key = own(fleet.after).signer, encoded(own(fleet.before).signer.public_key)
    for rows in (
        [[key, 1, 1]] * (MAX_FORMER + 1),
        [[key, 1]],
        [[key, -1, 1]],
        [[key, 1, 1 << 60]],
        [[key, True, 1]],
        [[key + b"x", 1, 1]],
        [[b"no key", 1, 1]],
        "rows",
    ):
        body = msgpack.packb(("gw-a", 1, rows))
        made = replace(KeyStatement.make("gw-a", 1, (), signer), body=body)
        with pytest.raises(UntrustedError, match="statement of former keys"):
            KeyStatement.of(replace(made, signature=signer.sign(made.message)).data)


@pytest.mark.parametrize("life", [0, LIFE, LIFE + 1])
def test_a_key_is_known_where_what_it_signed_is_decided(fleet: Fleet, life: int) -> None:
    signature = fleet.a_key.signer.sign(b"kept")
    fleet.roll_over()
    ring = fleet.newcomer()

    def is_known() -> bool:
        is_decided = ring.verify("gw-a", b"kept", signature, LATE_S, life) is not Verdict.UNKNOWN
        assert ring.knows_key("gw-a", signature, LATE_S, life) is is_decided
        return is_decided

    assert not is_known()
    ring.take_statement(fleet.stated())
    assert is_known() is (life == LIFE)
    ring.follow_trust(trust(fleet.old, fleet.new))
    ring.add(own(fleet.before).chain)
    assert is_known()


def test_a_signature_of_a_statement_is_as_long_as_one_may_be_and_no_longer(fleet: Fleet) -> None:
    plain = KeyStatement.make("gw-a", 1, (), fleet.a_key.signer)
    assert KeyStatement.of(replace(plain, signature=bytes(255)).data).signature == bytes(255)
    for signature in (b"", bytes(256)):
        with pytest.raises(UntrustedError, match="signature"):
            KeyStatement.of(replace(plain, signature=signature).data)


def test_what_is_no_statement_is_refused_by_its_part(fleet: Fleet) -> None:
    fleet.roll_over()
    data = fleet.stated()
    body, signature = msgpack.unpackb(data)
    name, stated_s, rows = msgpack.unpackb(body)
    ((key, until_s, life),) = rows
    p384 = ec.generate_private_key(ec.SECP384R1()).public_key()
    other = p384.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def of(*, body: object = None, signature: object = signature, **changed: object) -> bytes:
        fields = {"name": name, "at": stated_s, "rows": rows} | changed
        made = msgpack.packb(list(fields.values())) if body is None else body
        return bytes(msgpack.packb([made, signature]))

    assert KeyStatement.of(of()).keys[0].until_s == until_s
    assert KeyStatement.of(of(signature=b"x" * 255)).signature == b"x" * 255
    for wrong in (
        b"",
        msgpack.packb([body]),
        of(body="text"),
        of(signature="text"),
        of(signature=b""),
        of(signature=b"x" * 256),
        of(name="GW"),
        of(at=-1),
        of(at=True),
        of(rows={}),
        of(rows=[[key, until_s]]),
        of(rows=[[key, -1, life]]),
        of(rows=[[key, until_s, 2**32]]),
        of(rows=[[b"key", until_s, life]]),
        of(rows=[[other, until_s, life]]),
        of(rows=rows * (MAX_FORMER + 1)),
        of(signature=bytes(MAX_STATEMENT_BYTES)),
    ):
        with pytest.raises(UntrustedError, match=r"^statement of former keys"):
            KeyStatement.of(wrong)


def test_a_statement_of_a_later_time_than_there_is_makes_room_once_the_clock_is_right(
    fleet: Fleet,
) -> None:
    fleet.roll_over()
    now_s = time.time()
    signer = own(fleet.after).signer
    keys = FormerKeys(lambda *_: True)
    far = KeyStatement.make("gw-a", int(now_s) + 10 * MAX_AHEAD_S, [], signer)
    with pytest.raises(UntrustedError, match="of a later time: 'gw-a'"):
        keys.take(far, now_s)
    assert keys.take(far, now_s + 10 * MAX_AHEAD_S)
    now = KeyStatement.make("gw-a", int(now_s), [], signer)
    assert not keys.take(now, far.stated_s - MAX_AHEAD_S)  # it is still within what may be ahead
    assert keys.take(now, now_s)
    assert (keys.of("gw-a"), len(keys), far.fingerprint in keys) == (now, 1, False)
    assert not keys.take(now, now_s)


def test_so_many_keys_stay_taken_back_and_the_first_goes_first() -> None:
    keys = FormerKeys(lambda *_: True)
    digests = [number.to_bytes(32, "big") for number in range(MAX_TAKEN_BACK + 1)]
    keys.take_back(digests[:-1])
    assert keys.taken_back == digests[:-1]
    keys.take_back(digests[:1])
    assert keys.taken_back == digests[:-1]
    keys.take_back(digests[-1:])
    assert keys.taken_back == digests[1:]


def test_a_history_that_can_not_be_kept_now_is_kept_with_the_next_change(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    history = OwnHistory(fleet.folder)
    assert history.last_life == LIFE
    folder = fleet.folder.rename(fleet.folder.with_name("away"))
    after = own(fleet.after).chain
    history.use(after, LIFE + 1, time.time())
    assert "the keys of this gateway are not kept" in caplog.text
    assert history.last_life == LIFE + 1
    folder.rename(fleet.folder)
    assert OwnHistory(fleet.folder).last_life == LIFE
    history.use(after, LIFE + 1, time.time())
    assert OwnHistory(fleet.folder).last_life == LIFE + 1
    assert [one.last_life for one in OwnHistory(fleet.folder).former(after)] == [LIFE]
    history.drop(lambda chain: True)
    assert OwnHistory(fleet.folder).last_life == 0


def test_what_can_not_be_kept_of_others_is_told_and_kept_later(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.roll_over()
    folder = fleet.folder.rename(fleet.folder.with_name("away"))
    fleet.a.save()
    assert "certificates of other gateways are not kept" in caplog.text
    assert "former keys of gateways are not kept" in caplog.text
    folder.rename(fleet.folder)
    fleet.a.save()
    again = FleetKeys(SigningFiles(own(fleet.after), trust(fleet.new)), fleet.folder)
    again.begin("gw-a", LIFE + 1)
    assert again.statement is not None
    assert again.statement.keys[0].last_life == LIFE


def test_a_statement_is_looked_into_as_long_as_it_may_be_and_no_longer() -> None:
    body = msgpack.packb(("gw-a", 1, ()))
    for length in (MAX_STATEMENT_BYTES, MAX_STATEMENT_BYTES + 1):
        over = length - len(msgpack.packb((body, bytes(256))))
        data = msgpack.packb((body, bytes(256 + over)))
        assert len(data) == length
        why = "signature" if length == MAX_STATEMENT_BYTES else f"{length} bytes"
        with pytest.raises(UntrustedError, match=why):
            KeyStatement.of(data)


def test_a_key_that_signs_nothing_here_is_no_key_of_a_history(tmp_path: Path) -> None:
    rsa_key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw-a")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, rsa_key.public_key(), 1, now - DAY, now + DAY)
        .sign(rsa_key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )
    with pytest.raises(TypeError, match="signs nothing here"):
        OwnHistory(tmp_path).use((certificate,), LIFE, time.time())
    (tmp_path / "own_keys").write_bytes(msgpack.packb([([certificate], 0, LIFE)]))
    assert OwnHistory(tmp_path).last_life == 0
