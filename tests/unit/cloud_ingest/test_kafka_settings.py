"""The section `[kafka]` of a collector: as documented, and clear about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_ingest.collector.kafka_batches import MAX_ORIGIN_BYTES, origin_of
from cloud_ingest.collector.kafka_settings import MOST_PARTITIONS, KafkaCollectorSettings
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


PLAIN = {
    "bootstrap.servers": "k:9092,l:9093",
    "client.id": "plant",
    "group.id": "plant",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
}


def test_each_thing_that_is_said_is_what_a_client_of_kafka_is_told_and_nothing_else(
    tmp_path: Path,
) -> None:
    for name in ("ca.pem", "own.pem", "own.key"):
        (tmp_path / name).touch()
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    two = 'servers = ["k:9092", "l:9093"]\ntopics = ["t"]\n'
    ca = {"ssl.ca.location": str(tmp_path / "ca.pem")}
    own = {
        "ssl.certificate.location": str(tmp_path / "own.pem"),
        "ssl.key.location": str(tmp_path / "own.key"),
    }
    user = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "anna", "sasl.password": ""}
    files = f'ca_file = "{tmp_path}/ca.pem"\n'
    both = f'{files}certificate_file = "{tmp_path}/own.pem"\nkey_file = "{tmp_path}/own.key"\n'
    plain = f'user = "anna"\nsasl = "PLAIN"\npassword_file = "{password}"\n'
    told = {"sasl.mechanism": "PLAIN", "sasl.username": "anna", "sasl.password": "secret"}
    for said, more, protocol in (
        ("", {}, "PLAINTEXT"),
        (files, ca, "SSL"),
        (both, ca | own, "SSL"),
        ('user = "anna"\n', user, "SASL_PLAINTEXT"),
        (both + plain, ca | own | told, "SASL_SSL"),
        ('consumer_group = "g"\n', {"group.id": "g"}, "PLAINTEXT"),
    ):
        client = written(tmp_path, two + said).client()
        assert client == {**PLAIN, **more, "security.protocol": protocol}


def test_an_origin_s_name_may_have_so_many_bytes(tmp_path: Path) -> None:
    def topic(count: int) -> str:
        return f'servers = ["k:1"]\ntopics = ["{"t" * count}"]'

    free = MAX_ORIGIN_BYTES - len(origin_of("plant", "", MOST_PARTITIONS))
    assert written(tmp_path, topic(free)).kafka.topics == ["t" * free]
    with pytest.raises(ConfigError, match=r"kafka\.topics\[0\].*too long"):
        written(tmp_path, topic(free + 1))
