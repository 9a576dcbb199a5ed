"""The section `[kafka]` of a collector: as documented, and clear about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_ingest.collector.kafka_settings import KafkaCollectorSettings
from gateway.process.configuration.config import ConfigError, load

PAGE = Path(__file__).parents[3] / "docs" / "collector-of-a-broker.md"


def written(folder: Path, kafka: str, identity: str = "plant") -> KafkaCollectorSettings:
    file = folder / "collector.toml"
    file.write_text(f'[collector]\nid = "{identity}"\nspool_dir = "spool"\n[kafka]\n{kafka}\n')
    return load(file, KafkaCollectorSettings)


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    text = PAGE.read_text().partition("```toml\n# kafka.toml\n")[2].partition("```")[0]
    (tmp_path / "collector.toml").write_text(text)
    for name in ("kafka-ca.pem", "collector.pem", "collector.key"):
        (tmp_path / name).write_text("")
    password = tmp_path / "kafka-password"
    password.write_text("secret\n")
    password.chmod(0o600)
    client = load(tmp_path / "collector.toml", KafkaCollectorSettings).client()
    assert client["security.protocol"] == "SASL_SSL"
    assert (client["sasl.username"], client["sasl.password"]) == ("hedgerow", "secret")
    assert client["group.id"] == "plant"
    assert client["enable.auto.commit"] is False


def test_without_files_and_user_it_is_in_the_clear(tmp_path: Path) -> None:
    client = written(tmp_path, 'servers = ["k:9092"]\ntopics = ["t"]').client()
    assert client["security.protocol"] == "PLAINTEXT"
    assert "sasl.username" not in client


@pytest.mark.parametrize(
    ("kafka", "where"),
    [
        ('servers = []\ntopics = ["t"]', r"kafka\.servers"),
        ('servers = ["k"]\ntopics = ["t"]', r"kafka\.servers\[0\]"),
        ('servers = ["k:1"]\ntopics = []', r"kafka\.topics"),
        ('servers = ["k:1"]\ntopics = ["a/b"]', r"kafka\.topics\[0\]"),
        ('servers = ["k:1"]\ntopics = ["t", "t"]', r"kafka\.topics\[1\]"),
        (f'servers = ["k:1"]\ntopics = ["{"t" * 249}"]', r"kafka\.topics\[0\].*too long"),
        ('servers = ["k:1"]\ntopics = ["t"]\nstart = "now"', r"kafka\.start"),
        ('servers = ["k:1"]\ntopics = ["t"]\nsasl = "GSSAPI"', r"kafka\.sasl"),
        ('servers = ["k:1"]\ntopics = ["t"]\npassword_file = "collector.toml"', r"kafka\.user"),
        ('servers = ["k:1"]\ntopics = ["t"]\nkey_file = "collector.toml"', "certificate_file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, kafka: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        written(tmp_path, kafka)
