"""Parts of a running gateway, each by itself: its way into the tree, its drain and its records."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from loop_turns import turns
from tree_host import never_linked

from gateway.base.toml.toml_file import ConfigError
from gateway.base.watched_tasks import WatchedTasks
from gateway.node.links import dns_sd
from gateway.node.links.discovery import DiscoveryError
from gateway.process.configuration.config import TreeSection
from gateway.process.fleet_status import publishing
from gateway.process.fleet_status.pace import TreePlace
from gateway.process.fleet_status.publishing import StatusPublisher
from gateway.process.fleet_status.status_sources import StatusFindings
from gateway.process.running import attachment, drain
from gateway.process.running.attachment import Attachment
from gateway.process.running.drain import Drain
from record_formats.status_record import StatusError
from tree_handler.batch import Entry
from tree_handler.members.place import Place

# -- the way into the tree -------------------------------------------------------------------------


class Group:
    """A discovery that may not be able to join its group."""

    made: list[Group]
    refused: set[str]

    def __init__(self, _discovery: object, group: Any, _found: object) -> None:
        self.told: list[str] = []
        self.interface = str(group.interface)
        self.made.append(self)

    async def join(self) -> None:
        if self.interface in self.refused:
            raise DiscoveryError(errno.ENODEV, f"no group on {self.interface}")
        self.told.append("joined")

    def begin(self) -> None:
        self.told.append("begun")

    async def stop(self) -> None:
        self.told.append("stopped")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> type[Group]:
    Group.made, Group.refused = [], set()
    monkeypatch.setattr(attachment, "MulticastDiscovery", Group)
    return Group


def attached(**tree: Any) -> Attachment:
    node = SimpleNamespace(
        dial=None,
        is_linked=lambda _: False,
        link_ends=never_linked,
        listens_at=lambda _: None,
        dials_back=lambda _: None,
    )
    section = TreeSection(Path("key"), tls="off", **tree)
    return Attachment(cast(Any, node), section, "gw-a", b"k" * 16, 1)


async def test_a_group_that_can_not_be_joined_ends_the_start_and_leaves_those_before_it(
    groups: type[Group],
) -> None:
    groups.refused = {"127.0.0.2"}
    one = attached(discovery=True, discovery_interfaces=["127.0.0.1", "127.0.0.2"])
    with pytest.raises(ConfigError) as raised:
        await one.start("127.0.0.1", 1883)
    assert raised.value.where == "tree.discovery_interface"
    assert "no group on 127.0.0.2" in raised.value.why
    assert [group.told for group in groups.made] == [["joined", "stopped"], []]


async def test_a_change_that_can_not_be_made_changes_nothing(groups: type[Group]) -> None:
    one = attached(discovery=True, discovery_interfaces=["127.0.0.1"])
    await one.start("127.0.0.1", 1883)
    groups.refused = {"127.0.0.2"}
    other = TreeSection(Path("key"), tls="off", discovery_interfaces=["127.0.0.2"], discovery=True)
    with pytest.raises(DiscoveryError):
        async with one.changing(other):
            raise AssertionError
    groups.refused = set()
    async with one.changing(other):
        pass  # somebody else keeps it from being made
    assert [group.told for group in groups.made] == [
        ["joined", "begun"],
        [],
        ["joined", "stopped"],
    ]
    async with one.changing(other) as change:
        await change()
    assert [group.told for group in groups.made[:1] + groups.made[3:]] == [
        ["joined", "begun", "stopped"],
        ["joined", "begun"],
    ]


async def test_dns_sd_that_can_not_begin_is_named_with_its_interfaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(dns_sd, "DnsSd", made)
    one = attached(discovery=False, dns_sd=True, discovery_interfaces=["127.0.0.1", "127.0.0.2"])
    with pytest.raises(ConfigError) as raised:
        await one.start("127.0.0.1", 1883)
    assert raised.value.why.endswith("DNS-SD on 127.0.0.1, 127.0.0.2: Too many open files")


async def test_an_attachment_that_is_stopped_dials_nobody_and_tells_of_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = asyncio.all_tasks()
    one = attached(neighbours=["127.0.0.1:1"])
    await one.start("127.0.0.1", 1883)
    assert asyncio.all_tasks() > before
    await one.stop()
    assert asyncio.all_tasks() == before
    assert not [line for line in caplog.messages if "DNS-SD" in line]


# -- the drain -------------------------------------------------------------------------------------


class Draining:
    """A gateway that has all that keeps it from its end, until the test takes it away."""

    def __init__(self) -> None:
        self.over = 0
        self.owed = {"gw-b": 3}
        self.lacking: dict[str, int | None] = {"gw-b": 2, "gw-c": None}
        self.sessions = Sessions(a=5, b=7)
        self.sessions.connected = 1
        self.commits = SimpleNamespace(waiting_bytes=10)
        core = SimpleNamespace(
            sessions=self.sessions, commit_queue=self.commits, close_to_clients=self._close
        )
        links = {name: SimpleNamespace(peer_id=name) for name in ("gw-b", "gw-c")}
        repair = SimpleNamespace(lacking=lambda link: self.lacking[link])
        self.node = SimpleNamespace(
            links=links,
            replication=SimpleNamespace(repair=repair),
            tree=SimpleNamespace(forwarding=["gw-b", "gw-c", "gw-gone"]),
            locator=SimpleNamespace(reached={"gw-b"}),
        )
        self.order: list[str] = []
        self.drain = Drain(
            cast(Any, self.node), cast(Any, core), self._over, lambda: self.owed, WatchedTasks()
        )

    def _close(self) -> None:
        self.order.append("close")

    def _over(self) -> None:
        self.over += 1


class Sessions(dict[str, Any]):
    """Sessions with so many messages each that wait on this disk."""

    connected = 0

    def __init__(self, **counts: int) -> None:
        super().__init__()
        for name, count in counts.items():
            backlog = SimpleNamespace(count=count)
            self[name] = SimpleNamespace(outgoing=SimpleNamespace(backlog=backlog))


async def test_a_drain_is_over_when_nothing_is_here_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "LOOK_S", 0.0)
    monkeypatch.setattr(drain, "LINGER_S", 0.0)
    one = Draining()
    assert one.drain.state is None
    await one.drain.stop()
    one.drain.begins_with(lambda: one.order.append("leaves"))
    one.drain.start()
    one.drain.start()
    assert one.order == ["close", "leaves"]
    state = one.drain.state
    assert state is not None
    told = state.as_json()
    assert told.pop("since_s") > 1_700_000_000
    assert told == {
        "lacking": {"gw-b": 2, "gw-c": None},
        "owed": {"gw-b": 3},
        "uncommitted": 10,
        "left_on_disk": 12,
        "is_over": False,
    }

    async def is_over() -> bool:
        await turns(20)
        now = one.drain.state
        assert now is not None
        assert now.is_over == (one.over == 1)
        return now.is_over

    assert not await is_over()
    one.sessions.connected = 0
    assert not await is_over()
    one.commits.waiting_bytes = 0
    assert not await is_over()
    one.owed = {"gw-far": 9}  # which nobody reaches
    assert not await is_over()
    one.lacking = {"gw-b": 0, "gw-c": None}
    assert not await is_over()
    one.node.tree.forwarding = []
    assert not await is_over()  # nobody has what is here
    one.node.tree.forwarding = ["gw-b"]
    for _ in range(1_000):
        if await is_over():
            break
    assert one.over == 1
    await one.drain.stop()


# -- records of how it is --------------------------------------------------------------------------


class Looks:
    """Looks at the machine; it may fail as a disk does."""

    def __init__(self) -> None:
        self.count = 0
        self.found = StatusFindings()

    def read(self) -> StatusFindings:
        self.count += 1
        return self.found


class OwnStatusTold:
    """Tells what it is given."""

    own_id = "gw-a"

    def __init__(self) -> None:
        self.told: list[StatusFindings] = []
        self.error: StatusError | None = None

    def place_in_tree(self) -> TreePlace:
        return TreePlace("gw-a", None)

    def record(self, _every: float, _up: float, _place: Place, looked: Any, _pace: Any) -> Any:
        self.told.append(looked)
        return self

    def encode(self) -> bytes:
        if self.error is not None:
            raise self.error
        return b"record"


def publisher(
    own: OwnStatusTold, looks: Looks, interval_s: float = 10.0
) -> tuple[StatusPublisher, list[Entry]]:
    published = list[Entry]()
    made = StatusPublisher(
        cast(Any, own),
        cast(Any, looks),
        lambda: Place("campus", "north"),
        published.append,
        interval_s,
    )
    return made, published


async def test_a_record_is_published_when_it_is_due_and_once_more_at_the_end() -> None:
    own, looks = OwnStatusTold(), Looks()
    part, published = publisher(own, looks)
    part.handle_timer(5.0)
    part.handle_timer(5.0)  # the first one is being sent
    while not published:
        await asyncio.sleep(0)
    part.leave()
    part.leave()
    assert looks.count == 1
    assert own.told == [looks.found, StatusFindings()]
    assert [(one.payload, one.qos, one.retain) for one in published] == [(b"record", 1, False)] * 2
    assert {one.topic for one in published} == {published[0].topic}
    assert published[0].topic.startswith("campus/north/gw-a/")
    part.handle_timer(500.0)
    await part.stop()
    assert (looks.count, len(published)) == (1, 2)


async def test_with_an_interval_of_zero_nothing_is_published_at_the_end_either() -> None:
    own, looks = OwnStatusTold(), Looks()
    part, published = publisher(own, looks, 0.0)
    part.handle_timer(5.0)
    part.leave()
    await part.stop()
    assert (own.told, published, looks.count) == ([], [], 0)


async def test_where_the_machine_does_not_answer_in_time_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "READ_TIMEOUT_S", 0.0)
    own, looks = OwnStatusTold(), Looks()
    looks.found = StatusFindings(backup=cast(Any, "seen"))
    part, published = publisher(own, looks)
    part.handle_timer(5.0)
    while not published:
        await asyncio.sleep(0)
    assert own.told == [StatusFindings()]
    await part.stop()


async def test_a_record_that_can_not_be_written_is_told_of_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = OwnStatusTold()
    own.error = StatusError("$.n: too long")
    part, published = publisher(own, Looks())
    part.leave()
    assert published == []
    assert "the status record is not published: $.n: too long" in caplog.text
    await part.stop()
    assert Counter(one.levelname for one in caplog.records) == {"ERROR": 1}
