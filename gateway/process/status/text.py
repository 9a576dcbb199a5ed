"""A gateway's status as a person reads it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import Any

from gateway.backups import backup_state
from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.process.status.links_text import without_links

MOST_TOLD = 6
"""Of a list in one line: the greatest."""
FULL_BYTES = 1_000_000
"""With less room than that, what is small may still be taken while the rest is refused."""
_COLUMNS = ("neighbour", "role", "forwards", "rtt ms", "heard s ago", "queued", "address")


def as_text(status: Mapping[str, Any]) -> str:
    """Return lines for a terminal."""
    if "boot_epoch" not in status:
        return summary_text(status)
    place = f"{status['domain'] or '-'}/{status['group'] or '-'}"
    above = f"parent {status['parent']}" if status["parent"] else "root of the tree"
    changed = status["last_change"]
    ago_s = max(0, round(time.time() - changed["time_s"]))
    counters = ", ".join(f"{name} {count}" for name, count in status["counters"].items())
    lines = [
        f"{status['id']} ({place})  {above}",
        f"root {status['root']}, {status['hops']} hops, cost {status['cost_ms']} ms, "
        f"capability {status['capability']:g}",
        f"up {status['up_s']} s (boot {status['boot_epoch']}) on {status['event_loop']}, "
        f"{status['build']}, {status['mqtt_clients']} MQTT clients, "
        f"log {status['log_bytes']} bytes, hedgerow {status.get('version', 'before 0.2')}",
        f"last change {ago_s} s ago: {changed['why']}",
        counters,
        *_disk(status.get("disk", {})),
        *_backup(status.get("backup") or {}),
        *_failing(status),
        *_alerts(status.get("alerts") or {}),
        *(_broker(status["broker"]) if "broker" in status else ()),
        *(_routed(routed) if (routed := status.get("routed")) else ()),
        *_edge(status),
        "",
        *_table(status["neighbours"]),
        *without_links(status),
    ]
    return "\n".join(lines)


def summary_text(status: Mapping[str, Any]) -> str:
    """Return a line for a terminal, of what a stranger is told."""
    return (
        f"{status.get('id')}: up {status.get('up_s')} s, hedgerow {status.get('version')}. "
        "It tells the rest on its own machine and to those with a key (coaps)."
    )


def _disk(disk: Mapping[str, Any]) -> list[str]:
    failure, free_bytes = disk.get("failure"), disk.get("free_bytes")
    if not failure and free_bytes is not None and free_bytes < FULL_BYTES:
        failure = "full"
    told = [f"{failure}, so that messages are refused"] if failure else []
    if free_bytes is not None:
        told.append(f"{free_bytes / 1e6:.1f} MB free")
    return [f"disk: {'; '.join(told)}"] if told else []


def _backup(backup: Mapping[str, Any]) -> list[str]:
    state, why, age_s = (backup.get(key) for key in ("state", "why", "age_s"))
    if state is None or state == backup_state.OFF:
        return []
    told = str(state).upper() if state in backup_state.WRONG else str(state)
    if age_s is not None:
        told += f", the last good one {age_s / 3600:.0f} hours old"
    return [f"backup: {told}; {printable(str(why))}" if why else f"backup: {told}"]


def _failing(status: Mapping[str, Any]) -> list[str]:
    lines = [f"FAILED: {name}: {why}" for name, why in sorted(status.get("failing", {}).items())]
    if set_aside := status.get("set_aside"):
        counts = sorted(set_aside.items(), key=lambda pair: -pair[1])
        told = ", ".join(f"{what} {count}" for what, count in counts[:MOST_TOLD])
        lines.append(f"set aside after a failure: {told}")
    return lines


def _alerts(alerts: Mapping[str, Any]) -> list[str]:
    lines = []
    if standing := alerts.get("standing"):
        lines.append(f"alerts: {standing}, {alerts['critical']} critical (`hedgerow alerts`)")
    for way, one in alerts.get("ways", {}).items():
        if one["trouble"] or one["dropped"]:
            trouble = f": {one['trouble']}" if one["trouble"] else ""
            lines.append(
                f"alerts by {way}: {one['waiting']} wait, {one['dropped']} dropped{trouble}"
            )
    return lines


def _broker(broker: Mapping[str, Any]) -> list[str]:
    clients, messages = broker["clients"], broker["messages"]
    lines = [
        f"clients: {clients['connected']} connected (at most {clients['maximum']}), "
        f"{clients['disconnected']} away, {clients['expired']} expired; "
        f"{broker['subscriptions']} subscriptions",
        "messages: " + ", ".join(f"{count} {name}" for name, count in messages.items()),
    ]
    near = [
        f"{name} {use['used']} of {use['limit']}"
        for name, use in broker["limits"].items()
        if 2 * use["used"] > use["limit"]
    ]
    if near:
        lines.append("more than half used: " + ", ".join(near))
    if broker["refusals"]:
        counts = sorted(broker["refusals"].items(), key=lambda pair: -pair[1])
        lines.append(
            "refused: " + ", ".join(f"{kind} {count}" for kind, count in counts[:MOST_TOLD])
        )
    return lines


def _routed(routed: Mapping[str, Any]) -> list[str]:
    counts = [f"{name} {count}" for name, count in sorted(routed["counters"].items())]
    lines = ["routed: " + ", ".join(counts)]
    owed = sorted(routed.get("owed", {}).items(), key=lambda pair: -pair[1])
    if owed:
        most = ", ".join(f"{gateway_id} {count}" for gateway_id, count in owed[:MOST_TOLD])
        more = f" and {len(owed) - MOST_TOLD} more" if len(owed) > MOST_TOLD else ""
        lines.append(f"messages owed to gateways: {most}{more}")
    if (topics := routed["overlays"]) is not None:
        settled = sum(overlay["settled"] for overlay in topics["overlays"])
        left_out = topics["over_limit"] + topics["disconnected"]
        counts = [f"{name} {count}" for name, count in sorted(topics["counters"].items())]
        overlays = (
            f"overlays: in {len(topics['overlays'])}, {settled} settled, root of "
            f"{topics['rooted']}, {left_out} left out"
        )
        lines.append(", ".join([overlays, *counts]))
    return lines


def _edge(status: Mapping[str, Any]) -> list[str]:
    lines = []
    if (sensors := status.get("sensors")) is not None and sensors["count"]:
        lines.append(
            f"sensors: {sensors['count']}, {sensors['failed']} readings failed, "
            f"{sensors['skipped']} skipped"
        )
    if (coap := status.get("coap")) is not None:
        lines.append(
            f"CoAP: {coap['asking']} peers with {coap['open_requests']} open requests, "
            f"{coap['dtls_sessions']} DTLS sessions, {coap['registered']} registered"
            + (f", {refused} refused" if (refused := coap.get("refused")) else "")
        )
    for one in status.get("certificates", ()):
        day = datetime.datetime.fromtimestamp(one["ends_s"], datetime.UTC)
        left = "EXPIRED" if one["days_left"] < 0 else f"in {one['days_left']} days"
        lines.append(f"{one['field']}: {one['name']!r} expires {day:%Y-%m-%d}, {left}")
    return lines


def _table(neighbours: list[dict[str, Any]]) -> list[str]:
    rows = [_COLUMNS] + [
        (
            n["id"],
            n["role"],
            "yes" if n["forwarding"] else "no",
            "?" if n["rtt_ms"] is None else f"{n['rtt_ms']:.2f}",
            "?" if n["heard_s_ago"] is None else f"{n['heard_s_ago']:.1f}",
            str(n["queued_bytes"]),
            n["address"],
        )
        for n in neighbours
    ]
    return columns(rows)
