"""The section `[broker]` of a collector: as documented, and clear about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

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
