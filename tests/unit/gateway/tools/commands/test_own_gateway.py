"""The gateway of this machine is found by its configuration, and what is lacking is said."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from gateway.process.configuration import place as config_place
from gateway.process.state_folder import listeners_file
from gateway.tools.commands import asking
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.own_gateway import OwnGateway, with_own_key

HERE = "127.0.0.1:5683"
SECURE = "127.0.0.1:5684"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with a key."""
    for name, text in (("tree.key", "ab" * 32), ("psk", f"pump:{'ab' * 16}\n")):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text(text)
    config = tmp_path / "gateway.toml"
    config.write_text(
        f'[gateway]\nid = "gw-a"\nstate_dir = "{tmp_path}"\n[coap]\npsk_file = "psk"\n'
        '[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n'
    )
    return config


def runs(file: Path, **listeners: str) -> None:
    listeners_file.write(file.parent, "gw-a", {name: [at] for name, at in listeners.items()})


def options(config: Path | None, **given: object) -> argparse.Namespace:
    usual = {"gateway": None, "psk_file": None, "psk_identity": None, "way": ""}
    return argparse.Namespace(config=config, **(usual | given))


def test_a_gateway_that_runs_is_known_by_its_id_and_where_it_listens(file: Path) -> None:
    runs(file, coap=HERE)
    own = OwnGateway.of(file)
    assert (own.id, own.near("coap"), own.near("coaps")) == ("gw-a", ("127.0.0.1", 5683), None)


def test_what_starts_a_gateway_that_does_not_run_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_running = f"gw-a is not running ({file.parent / listeners_file.NAME}); "
    with pytest.raises(FailedError) as failed:
        OwnGateway.of(file)
    assert str(failed.value) == f"{not_running}`hedgerow run --config {file}` starts it"
    monkeypatch.setattr(config_place, "SYSTEM", file)
    with pytest.raises(FailedError) as failed:
        OwnGateway.of(file)
    assert str(failed.value) == (
        f"{not_running}`systemctl start hedgerow` starts it, or `hedgerow run --config {file}`"
    )


def test_a_folder_of_another_user_is_told_with_what_needs_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(state_dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(state_dir / listeners_file.NAME))

    monkeypatch.setattr(listeners_file, "read", read)
    with pytest.raises(FailedError) as failed:
        OwnGateway.of(file)
    assert str(failed.value) == (
        f"{file.parent / listeners_file.NAME}: permission denied to read where gw-a listens "
        "(HOST:PORT needs no file)"
    )


def test_a_configuration_that_is_wrong_is_told(file: Path) -> None:
    file.write_text("[gateway]\n")
    with pytest.raises(WrongUseError, match=r"gateway\.toml: gateway\.id"):
        OwnGateway.of(file)


@pytest.mark.parametrize(
    ("listeners", "psk_file", "why"),
    [
        ({"coaps": SECURE}, None, "gw-a has no coap listener, and over coaps this needs"),
        ({"coap": HERE}, "psk", "gw-a has no coaps listener"),
    ],
)
def test_a_listener_that_a_gateway_does_not_have_is_named(
    file: Path, listeners: dict[str, str], psk_file: str | None, why: str
) -> None:
    runs(file, **listeners)
    key = None if psk_file is None else file.parent / psk_file
    with pytest.raises(FailedError) as failed:
        asking.gateway_uri(options(file, psk_file=key))
    assert str(failed.value).startswith(why)


@pytest.mark.parametrize(
    ("listeners", "key"), [({"coaps": SECURE, "coap": HERE}, "psk"), ({"coap": HERE}, None)]
)
def test_the_key_of_the_own_gateway_is_taken_where_it_has_a_listener_for_it(
    file: Path, listeners: dict[str, str], key: str | None
) -> None:
    runs(file, **listeners)
    given = options(file)
    with_own_key(given)
    assert given.psk_file == (None if key is None else file.parent / key)


@pytest.mark.parametrize("given", [{"psk_file": Path("mine")}, {"gateway": "gw"}])
def test_a_key_or_a_gateway_that_is_named_is_the_one_that_is_meant(
    file: Path, given: dict[str, object]
) -> None:
    asked = options(file, **given)
    with_own_key(asked)
    assert asked.psk_file == given.get("psk_file")


def test_a_machine_without_a_configuration_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_place, "find_readable", lambda: None)
    given = options(None)
    with_own_key(given)
    assert given.psk_file is None
