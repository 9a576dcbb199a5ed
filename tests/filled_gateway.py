"""A gateway with something in each file of its state folder, to be started over what is left."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from authority import Authority
from fleet_gateway import FleetGateway, until
from kept_records import keep
from mqtt_peer import Peer

from gateway.coap_client import CoapClient
from gateway.mqtt import PropertyId, Version
from gateway.node.links import groups_part as shared_groups
from gateway.node.members import membership as members
from gateway.process.access.device_keys import DeviceKeyFile, new_key
from gateway.process.running.gateway_process import GatewayProcess
from gateway.process.state_folder import state_format
from tree_handler.batch import Entry


@dataclass
class World:
    """A folder that a gateway has filled, and what it knew."""

    folder: Path
    gateway: FleetGateway
    epochs: list[int] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.gateway.folder / "state"

    @asynccontextmanager
    async def started(self) -> AsyncIterator[FleetGateway]:
        state_format.claim(self.state)
        await self.gateway.start(mode="routed")
        try:
            yield self.gateway
        finally:
            await self.gateway.stop()


async def filled(folder: Path) -> World:
    authority = Authority(folder)
    gateway = FleetGateway(folder, "gw", authority.issue("gw", is_gateway=True), authority.file)
    (folder / "revoked.pem").write_bytes(authority.revoke(number=1))
    oscore = folder / "oscore.toml"
    oscore.touch(mode=0o600)
    oscore.write_text(
        f'[meter]\nmaster_secret = "{"12" * 16}"\nsender_id = "01"\nrecipient_id = "02"\n'
    )
    gateway.mqtt = f'client_crl_file = "{folder}/revoked.pem"'
    gateway.coap = f'oscore_file = "{oscore}"'
    gateway.access = '[alerts]\nack_url = "http://127.0.0.1:9641"'
    world = World(folder, gateway)
    async with world.started():
        world.epochs.append(gateway.process.parts.life.epoch)
    # With another key, so that there is one to be stated.
    gateway.issued = authority.issue("gw", is_gateway=True)
    async with world.started():
        process = gateway.process
        world.epochs.append(process.parts.life.epoch)
        reader, writer = await asyncio.open_connection("127.0.0.1", process.mqtt_port)
        peer = Peer(reader, writer, Version.V5)
        away = {"clean_start": True, "properties": {PropertyId.SESSION_EXPIRY_INTERVAL: 3_600}}
        assert await peer.connect("away", **away) == 0
        await peer.subscribe("wanted/#")
        peer.close()
        process.parts.broker.accept(Entry("kept", b"1", qos=1, retain=True))
        await until(lambda: list(process.parts.broker.core.retention.match("kept")))
        await process.parts.readings.add({"type": "switch", "name": "added"})
        access, key_file = process.parts.access, DeviceKeyFile(gateway.folder / "state")
        key_file.write(access.devices.with_key("lamp", new_key(), access.files.keystore))
        assert await _named_writes(process) == {"2.04"}
        directory = process.parts.site.directory
        directory.registry.register("node", [], directory.now(), base="coap://10.0.0.9")
        own = process.parts.members.known.get("gw")
        assert own is not None
    other = dataclasses.replace(own, id="other")
    keep(world.state / members.FILE_NAME, [own.encode(), other.encode()])
    keep(world.state / shared_groups.FILE_NAME, [])
    return world


async def _named_writes(process: GatewayProcess) -> set[str]:
    """Return what a client is answered that asks for writes, the same ones each time."""
    client, uri = CoapClient(), f"coap://127.0.0.1:{process.parts.coap.coap_port}/sensors/added"
    try:
        return {
            (await client.request("PUT", uri, payload=b"1", content_format=0, request_id=name)).code
            for name in (b"\0one", b"\0two", b"\0three")
        }
    finally:
        await client.close()


async def known(gateway: FleetGateway) -> set[str]:
    """Return the names of what a started gateway still knows."""
    process = gateway.process
    broker, proof, directory = (
        process.parts.broker.core,
        process.parts.proof,
        process.parts.site.directory,
    )
    assert proof.keys is not None
    statement = proof.keys.statement
    found = {
        "retained": bool(list(broker.retention.match("kept"))),
        "session": [one.client.client_id for one in broker.sessions.values()] == ["away"],
        "sensor": "added"
        in {one["name"] for one in process.parts.readings.listed() if one["is_added"]},
        "endpoint": "node" in {one.endpoint for one in directory.registry.registrations()},
        "member": process.parts.members.known.get("other") is not None,
        "former key": statement is not None and len(statement.keys) == 1,
        "list": bool(proof.revocations.lists),
        "device": len(process.parts.oscore.contexts) == 1,
        "device key": "lamp" in process.parts.access.devices.made,
        # They may have been carried out, and are not again.
        "name": await _named_writes(process) == {"5.04"},
    }
    return {name for name, is_known in found.items() if is_known}


KNOWN = {
    "retained",
    "session",
    "sensor",
    "endpoint",
    "member",
    "former key",
    "list",
    "device",
    "device key",
    "name",
}
