"""Goal: keys that were made and revoked count at once, over a start, and beside any key file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtls.errors import KeystoreError
from dtls.keystore import Keystore
from gateway.process.access import device_keys
from gateway.process.access.device_keys import (
    DeviceKeyError,
    DeviceKeyFile,
    DeviceKeys,
    KnownDevice,
    NoDeviceKeyError,
    new_key,
)

FILE = Keystore({"operator": b"o" * 16, "stolen": b"s" * 16})
KEY = b"k" * 32


def counting(keys: DeviceKeys, configured: Keystore = FILE) -> dict[str, bytes | None]:
    store = keys.over(configured)
    return {one: store.key_of(one.encode()) for one in store.identities()}


def test_a_key_that_is_made_counts_beside_those_of_the_file() -> None:
    keys = DeviceKeys().with_key("meter", KEY, FILE)
    assert counting(keys) == {"operator": b"o" * 16, "stolen": b"s" * 16, "meter": KEY}
    assert keys.known(FILE) == [
        KnownDevice("meter", is_made=True),
        KnownDevice("operator", is_made=False),
        KnownDevice("stolen", is_made=False),
    ]


def test_one_that_is_revoked_counts_no_more_wherever_it_stands() -> None:
    keys = DeviceKeys().with_key("meter", KEY, FILE)
    keys = keys.without("meter", FILE).without("stolen", FILE)
    assert counting(keys) == {"operator": b"o" * 16}
    for identity in ("meter", "stolen", "nobody"):
        with pytest.raises(NoDeviceKeyError, match="has no key"):
            keys.without(identity, FILE)


def test_a_file_that_is_put_back_lets_nobody_in_and_another_key_does() -> None:
    keys = DeviceKeys().without("stolen", FILE)
    assert "stolen" not in counting(keys, Keystore({"stolen": b"s" * 16}))
    assert counting(keys, Keystore({"stolen": b"n" * 16})) == {"stolen": b"n" * 16}
    both = keys.without("stolen", Keystore({"stolen": b"n" * 16}))
    assert counting(both, Keystore({"stolen": b"n" * 16})) == {}
    assert counting(both, FILE) == {"operator": b"o" * 16}


def test_who_was_revoked_may_be_given_another_key_here() -> None:
    keys = DeviceKeys().without("stolen", FILE).with_key("stolen", KEY, FILE)
    assert counting(keys)["stolen"] == KEY
    assert KnownDevice("stolen", is_made=True) in keys.known(FILE)


def test_the_configurations_key_goes_before_one_that_was_made() -> None:
    keys = DeviceKeys().with_key("meter", KEY, FILE)
    later = Keystore({"meter": b"c" * 16})
    assert counting(keys, later) == {"meter": b"c" * 16}
    assert counting(keys.without("meter", later), later) == {}


@pytest.mark.parametrize("identity", ["", "a b", "#a", "a\nb", "a" * 129, "é"])
def test_what_can_be_no_identity_is_refused(identity: str) -> None:
    with pytest.raises(KeystoreError):
        DeviceKeys().with_key(identity, KEY, FILE)


def test_an_identity_has_one_key_and_there_are_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = DeviceKeys().with_key("meter", KEY, FILE)
    for identity in ("meter", "operator"):
        with pytest.raises(DeviceKeyError, match="revoke that before"):
            keys.with_key(identity, KEY, FILE)
    monkeypatch.setattr(device_keys, "MADE_MAX", 1)
    monkeypatch.setattr(device_keys, "REVOKED_MAX", 1)
    with pytest.raises(DeviceKeyError, match="made already"):
        keys.with_key("other", KEY, FILE)
    keys = keys.without("stolen", FILE)
    with pytest.raises(DeviceKeyError, match="take keys out of that file"):
        keys.without("operator", FILE)


def test_the_file_is_the_gateways_alone_and_keys_are_in_no_text(tmp_path: Path) -> None:
    file = DeviceKeyFile(tmp_path)
    assert file.recalled() == DeviceKeys()
    keys = DeviceKeys().with_key("meter", KEY, FILE).without("stolen", FILE)
    file.write(keys)
    path = tmp_path / device_keys.FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert file.recalled() == keys
    assert KEY.hex() not in repr(keys) and (b"s" * 16).hex() not in path.read_text()


@pytest.mark.parametrize(
    "told",
    [
        {"version": 2, "keys": {}, "revoked": {}},
        {"version": 1, "keys": {"meter": "abcdefgh" * 8}, "revoked": {}},
        {"version": 1, "keys": {"meter": "ab"}, "revoked": {}},
        {"version": 1, "keys": {"a b": "ab" * 32}, "revoked": {}},
        {"version": 1, "keys": [], "revoked": {}},
        {"version": 1, "keys": {}, "revoked": {"a": 1}},
        {"version": 1},
        [],
    ],
)
def test_a_file_of_another_form_is_set_aside_and_tells_no_key(
    tmp_path: Path, told: object, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / device_keys.FILE_NAME
    path.write_text(json.dumps(told))
    assert DeviceKeyFile(tmp_path).recalled() == DeviceKeys()
    assert not path.exists() and "revoked there count again" in caplog.text
    assert "abcdefgh" not in caplog.text and "abab" not in caplog.text


NAMES = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(st.booleans(), NAMES), max_size=30), st.sets(NAMES))
def test_whatever_is_made_and_revoked_who_counts_is_who_was_let_in_last(
    steps: list[tuple[bool, str]], in_file: set[str]
) -> None:
    configured = Keystore({name: name.encode() * 16 for name in in_file})
    keys, expected = DeviceKeys(), set(in_file)
    for is_made, name in steps:
        try:
            if is_made:
                keys = keys.with_key(name, new_key(), configured)
                assert name not in expected
                expected.add(name)
            else:
                keys = keys.without(name, configured)
                assert name in expected
                expected.remove(name)
        except NoDeviceKeyError:
            assert name not in expected
        except DeviceKeyError:
            assert name in expected
    assert set(keys.over(configured).identities()) == expected
