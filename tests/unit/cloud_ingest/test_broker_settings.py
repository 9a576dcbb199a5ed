"""The section `[broker]` of a collector: as documented, and clear about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_ingest.collector.broker_session import SessionSettings
from cloud_ingest.collector.broker_settings import BrokerCollectorSettings
from cloud_ingest.collector.from_broker import BrokerCollector
from gateway.mqtt import Version
from gateway.process.configuration.config import ConfigError, load

PAGE = Path(__file__).parents[3] / "docs" / "collector-of-a-broker.md"


def written(folder: Path, broker: str, more: str = "") -> BrokerCollectorSettings:
    file = folder / "collector.toml"
    head = '[collector]\nid = "site-a"\nspool_dir = "spool"\n[broker]\nhost = "localhost"\n'
    file.write_text(f"{head}{broker}\n{more}")
    return load(file, BrokerCollectorSettings)


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    text = PAGE.read_text().partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "collector.toml").write_text(text)
    for name in ("broker-ca.pem", "collector.pem", "collector.key"):
        (tmp_path / name).write_text("")
    password = tmp_path / "broker-password"
    password.write_text("secret\n")
    password.chmod(0o600)
    settings = load(tmp_path / "collector.toml", BrokerCollectorSettings)
    session = settings.session()
    assert (session.client_id, session.version) == ("from-site-a", Version.V5)
    assert settings.login() == ("collector", b"secret")
    with pytest.raises(ConfigError, match=r"broker\.ca_file"):
        settings.tls()  # which is empty here


@pytest.mark.parametrize(
    ("broker", "where"),
    [
        ("topics = []", r"broker\.topics"),
        ('topics = ["a/#/b"]', r"broker\.topics\[0\]"),
        ('topics = ["#"]\nversion = "3.1"', r"broker\.version"),
        ('topics = ["#"]\nreceive_maximum = 0', r"broker\.receive_maximum"),
        ('topics = ["#"]\nport = 0', r"broker\.port"),
        ('topics = ["#"]\npassword = "x"', r"broker\.password"),
        ('topics = ["#"]\ncertificate_file = "collector.toml"', r"broker\.certificate_file"),
        ('topics = ["#"]\npassword_file = "collector.toml"', r"broker\.user"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, broker: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        written(tmp_path, broker)


async def test_it_does_not_start_where_it_would_not_sync(tmp_path: Path) -> None:
    settings = written(tmp_path, 'topics = ["#"]', '[log]\ndurability = "write"')
    with pytest.raises(ConfigError, match=r"log\.durability"):
        BrokerCollector(settings)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("port", 1, 65_535),
        ("keep_alive_s", 5, 65_535),
        ("session_expiry_s", 60, 4_294_967_295),
        ("receive_maximum", 1, 65_535),
    ],
)
def test_a_number_is_taken_up_to_its_bounds_and_not_beyond(
    tmp_path: Path, name: str, least: int, most: int
) -> None:
    for number in (least, most):
        settings = written(tmp_path, f'topics = ["#"]\n{name} = {number}')
        assert getattr(settings.broker, name) == number
    for number in (least - 1, most + 1):
        with pytest.raises(ConfigError, match=rf"broker\.{name}"):
            written(tmp_path, f'topics = ["#"]\n{name} = {number}')


def test_what_is_not_said_has_the_documented_defaults(tmp_path: Path) -> None:
    settings = written(tmp_path, 'topics = ["a/#", "b"]')
    assert settings.broker.port == 1883
    assert settings.session() == SessionSettings(
        "site-a", ["a/#", "b"], Version.V5, 60, 604_800, 1_000
    )
    assert settings.login() == (None, None)
    assert settings.tls() is None


def test_what_is_said_is_how_the_session_is_begun(tmp_path: Path) -> None:
    said = 'topics = ["a"]\nversion = "3.1.1"\nclient_id = "me"\nkeep_alive_s = 7\nuser = "anna"\n'
    settings = written(tmp_path, f"{said}session_expiry_s = 61\nreceive_maximum = 3")
    assert settings.session() == SessionSettings("me", ["a"], Version.V311, 7, 61, 3)
    assert settings.login() == ("anna", None)
