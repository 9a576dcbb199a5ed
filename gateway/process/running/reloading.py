"""Reload of files that are read again: a gateway takes over all of them, or nothing.

All that can fail comes first: reading, and what a part needs to have ready. Then each part goes by
it within one turn of the event loop, so that nobody meets a gateway of two minds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from gateway.coap.oscore.devices import OscoreDevices
from gateway.node.links.node import TreeNode
from gateway.node.links.scope import Scope
from gateway.node.signing.revocations import Revocations
from gateway.process.access import files as access_files
from gateway.process.configuration import change as config_change
from gateway.process.configuration.config import GatewaySettings
from gateway.process.running import state
from gateway.process.running.access_in_use import AccessInUse
from gateway.process.running.attachment import Attachment
from gateway.process.running.readings import Readings
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReloadedParts:
    """The parts that a reload gives new settings."""

    access: AccessInUse
    attachment: Attachment
    node: TreeNode
    oscore: OscoreDevices
    readings: Readings
    revocations: Revocations


async def reload(
    settings: GatewaySettings, read: Callable[[], GatewaySettings] | None, parts: ReloadedParts
) -> tuple[GatewaySettings, list[str]]:
    """Read the configuration and the files that it names, and go by them.

    Args:
        settings: by which the parts go.
        read: reads the configuration; None where there is no file of it.
        parts: these.

    Returns:
        The settings from now on, and the fields whose change takes a restart.

    Raises:
        ConfigError: something is wrong; it names the field, and nothing has changed.
        DiscoveryError: a multicast group can't be joined; nothing has changed.

    """
    at_start_alone = list[str]()
    if read is not None:
        settings, at_start_alone = config_change.take_over(settings, read())
    async with AsyncExitStack() as stack:
        # First, for drivers may take their time, and files are to be as they are in the end.
        making = state.changing_sensors(parts.readings, settings)
        change_sensors = await stack.enter_async_context(making)
        passwords = parts.access.files.broker.passwords
        files = access_files.read(settings, lists := parts.revocations.lists)
        finding = parts.attachment.changing(settings.tree)
        change_neighbours = await stack.enter_async_context(finding)
        if parts.revocations.lists is not lists:  # others came meanwhile
            files = access_files.with_lists(settings, files, parts.revocations.lists)
        if parts.access.files.broker.passwords is not passwords:  # a user was changed meanwhile
            files = access_files.with_passwords(settings, files)
        parts.oscore.contexts = state.oscore_contexts(parts.oscore, files.oscore)
        # From here on there is nothing that may fail.
        parts.access.follow(settings, files)
        change_sensors()
        parts.node.rescope(Scope(settings.tree.replicate, settings.tree.keep_local))
        await change_neighbours()
    return settings, at_start_alone
