"""Files of certificates: what of them a gateway uses, as its configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificate_fleet import Fleet

from gateway.process.access import secure_files
from gateway.process.configuration import config

TEXT = """[gateway]
id = "gw"
state_dir = "state"
address = "127.0.0.1"
[mqtt]
{mqtt}
[tree]
key_file = "tree.key"
discovery = false
{tree}
"""


@pytest.mark.parametrize(
    ("tree", "has_links", "has_signing"),
    [("", True, True), ('signatures = "off"', True, False), ('tls = "off"', False, False)],
)
def test_messages_are_signed_where_links_use_tls_unless_that_is_off(
    tmp_path: Path, tree: str, *, has_links: bool, has_signing: bool
) -> None:
    fleet = Fleet(tmp_path / "tls")
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "tree.key").chmod(0o600)
    file = tmp_path / "gateway.toml"
    file.write_text(TEXT.format(mqtt=fleet.mqtt, tree=tree))
    found = secure_files.read(config.load(file, config.GatewaySettings))
    assert (found.links is not None, found.signing is not None) == (has_links, has_signing)
    assert found.broker is not None
    assert (found.coap, found.console) == (None, None)
