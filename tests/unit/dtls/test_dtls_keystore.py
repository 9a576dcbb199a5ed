"""Goal: keys are read from a file that only its owner can read, and are shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtls.errors import KeystoreError
from dtls.keystore import Keystore, load, parse

HEX = "00112233445566778899aabbccddeeff"

identities = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128)
keystores = st.dictionaries(
    identities.filter(lambda i: not i.startswith("#")), st.binary(min_size=16, max_size=64)
)


@given(keys=keystores)
def test_what_is_written_is_read_again(keys: dict[str, bytes]) -> None:
    again = parse(Keystore(keys).encode(), "keys.psk")
    assert {i: again.key_of(i.encode()) for i in again.identities()} == keys


@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused_by_line(text: str) -> None:
    try:
        parse(text, "keys.psk")
    except KeystoreError as error:
        assert error.line is not None
        assert str(error).startswith(f"keys.psk:{error.line}: ")


def test_comments_empty_lines_and_colons_in_an_identity_are_fine() -> None:
    keys = parse(f"# the north side\n\n  urn:dev:mac:0024befffe804ff1:{HEX}\n", "keys.psk")
    assert keys.key_of(b"urn:dev:mac:0024befffe804ff1") == bytes.fromhex(HEX)
    assert keys.key_of(b"urn:dev:mac") is None


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("meter-1", "no colon"),
        (f":{HEX}", "identity ''"),
        (f"a meter:{HEX}", "identity 'a meter'"),
        (f"meter-1:{HEX}g", "not hexadecimal"),
        (f"meter-1:{HEX[:30]}", "15 bytes"),
        (f"meter-1:{HEX * 5}", "80 bytes"),
        (f"known:{HEX}", "twice"),
    ],
)
def test_an_error_names_file_and_line_and_never_the_key(line: str, what: str) -> None:
    with pytest.raises(KeystoreError, match=what) as caught:
        parse(f"known:{HEX}\n{line}\n", "keys.psk")
    assert str(caught.value).startswith("keys.psk:2: ")
    assert HEX[:8] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_keystore_shows_no_key() -> None:
    keys = Keystore({"meter-1": bytes.fromhex(HEX)})
    assert "meter" not in repr(keys)
    assert repr(keys) == str(keys) == "Keystore(1 keys)"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.psk"
    path.write_text(f"meter-1:{HEX}\n")
    path.chmod(mode)
    with pytest.raises(KeystoreError, match=f"0{mode:o}"):
        load(path)
    path.chmod(0o600)
    assert len(load(path)) == 1


def test_a_missing_or_binary_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match="No such file"):
        load(tmp_path / "none.psk")
    path = tmp_path / "keys.psk"
    path.write_bytes(b"\xff\xf0")
    path.chmod(0o600)
    with pytest.raises(KeystoreError, match="not a text file"):
        load(path)


def test_a_new_file_is_for_its_owner_alone_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "keys.psk"
    key = b"\x05" * 32
    Keystore({"meter-1": key}).write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load(path).key_of(b"meter-1") == key
    with pytest.raises(KeystoreError, match="exists"):
        Keystore().write(path)
