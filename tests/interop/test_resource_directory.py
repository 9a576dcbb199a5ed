"""Goal: endpoints that others wrote register with our directory and look up what is in it.

Method: libcoap's command line clients against a server in this process, on loopback; over DTLS
with two known identities.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiocoap import resource

from dtls.identity import ANONYMOUS
from dtls.keystore import Keystore
from gateway.coap.access import identity_of
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.server import CoapListener, CoapServer
from gateway.sensors.sampler import Sampler
from gateway.sensors.switch import Switch
from resource_directory.link_format import parse
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from resource_directory.resources import ResourceDirectory
from resource_directory.service import DirectoryService
from tests.policies import keys_may_all, open_access
from tree_handler.members.place import Place

KEYS = {"meter-1": b"0123456789abcdef", "meter-2": b"fedcba9876543210"}
REFUSED = "4.01 this needs a key (coaps)"
LINKS = '</temp>;rt="temperature";if="sensor",</light>;rt="light"'

plain_client = pytest.mark.peer("coap-client-notls", "libcoap3-bin")
openssl_client = pytest.mark.peer("coap-client-openssl", "libcoap3-bin")


@dataclass
class Directory:
    """A directory, a switch, and how to ask for them."""

    server: CoapServer
    registry: Registry
    switch: Switch

    async def plain(self, path: str, *arguments: str) -> str:
        uri = f"coap://127.0.0.1:{self.server.coap_port}{path}"
        return await run("coap-client-notls", "-B", "30", *arguments, uri)

    async def secure(self, identity: str, path: str, *arguments: str) -> str:
        uri = f"coaps://127.0.0.1:{self.server.coaps_port}{path}"
        key = KEYS[identity].decode()
        return await run(
            "coap-client-openssl", "-B", "30", "-u", identity, "-k", key, *arguments, uri
        )

    def bases(self) -> list[str | None]:
        search = self.registry.find_endpoints(LookupQuery(), 0.0)
        assert search.go_on(1_000)
        return [link.get("base") for link in parse(",".join(search.texts))]


def served(site: resource.Site, *, anonymous: bool) -> CoapServer:
    return CoapServer(
        site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=CoapListener(("127.0.0.1",), 0),
        keystore=Keystore(KEYS),
        access=open_access() if anonymous else keys_may_all(),
    )


@pytest.fixture(params=[False], ids=["guarded"])
async def directory(request: pytest.FixtureRequest) -> AsyncIterator[Directory]:
    def identify(message: object) -> str | None:
        identity = identity_of(message)
        return None if identity == ANONYMOUS else str(identity)

    site, registry, switch = resource.Site(), Registry(), Switch("pump")
    ResourceDirectory(DirectoryService(registry), identify, clock=lambda: 0.0).add_to(site)
    sensors = SensorResources(site, Sampler(lambda *_: None), "gw-1", Place("campus"))
    sensors.add(switch)
    async with served(site, anonymous=request.param) as server:
        yield Directory(server, registry, switch)


async def run(*command: str) -> str:
    """Run a client to its end; what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return out.decode().strip()


@plain_client
@pytest.mark.parametrize("directory", [True], indirect=True, ids=["anonymous"])
async def test_libcoap_registers_is_found_updates_and_leaves(directory: Directory) -> None:
    post = ("-m", "post", "-t", "40", "-e", LINKS)
    assert await directory.plain("/rd?ep=node1&d=campus&base=coap://node1", *post) == ""
    for query in ("rt=temp*", "ep=node1&if=sensor", "d=campus&count=1"):
        assert await directory.plain(f"/rd-lookup/res?{query}") == (
            '<coap://node1/temp>;rt="temperature";if="sensor"'
        )
    assert await directory.plain("/rd/1?lt=60", "-m", "post") == ""
    assert parse(await directory.plain("/rd-lookup/ep?lt=60"))[0].get("ep") == "node1"
    assert (
        await directory.plain("/rd/1") == '</temp>;rt="temperature";if="sensor",</light>;rt="light"'
    )
    assert await directory.plain("/rd/1", "-m", "delete") == ""
    assert await directory.plain("/rd-lookup/res") == ""
    assert await directory.plain("/rd/1") == "4.04 no registration: '/rd/1'"


@plain_client
async def test_libcoap_is_told_what_is_wrong_with_a_registration(directory: Directory) -> None:
    assert await directory.plain("/rd?ep=n", "-m", "post", "-e", LINKS) == REFUSED
    assert (await directory.plain("/rd-lookup/res?page=1")).startswith("4.00 page without count")
    assert len(directory.registry) == 0


@openssl_client
async def test_a_registration_over_dtls_has_a_coaps_base_and_an_owner(
    directory: Directory,
) -> None:
    post = ("-m", "post", "-t", "40", "-e", LINKS)
    assert await directory.secure("meter-1", "/rd?ep=node1", *post) == ""
    (base,) = directory.bases()
    assert base is not None
    assert base.startswith("coaps://127.0.0.1:")
    assert "4.03 registered by another" in await directory.secure(
        "meter-2", "/rd?ep=node1", "-m", "post", "-e", "</x>"
    )
    assert "4.03" in await directory.secure("meter-2", "/rd/1", "-m", "delete")
    assert await directory.secure("meter-1", "/rd/1", "-m", "delete") == ""
    assert len(directory.registry) == 0


@openssl_client
async def test_an_actuator_is_set_by_who_is_known_and_read_by_anybody(
    directory: Directory,
) -> None:
    assert await directory.plain("/sensors/pump", "-m", "put", "-e", "1") == REFUSED
    assert directory.switch.read() == 0.0
    senml = '[{"n":"pump","v":1}]'
    assert (
        await directory.secure("meter-1", "/sensors/pump", "-m", "put", "-t", "110", "-e", senml)
        == ""
    )
    assert await directory.plain("/sensors/pump", "-A", "0") == "1.0"
