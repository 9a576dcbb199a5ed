"""Goal: no flood of strangers makes those give way who have shown before who they are."""

from __future__ import annotations

from dataclasses import dataclass

from dtls.known_hosts import KNOWN_MAX, KnownHosts


@dataclass
class Begun:
    started_at: float


def test_a_host_with_many_gives_way_before_an_older_one_with_few() -> None:
    old, many = Begun(1.0), [Begun(2.0), Begun(3.0), Begun(4.0)]
    assert KnownHosts().surplus({"a": [old], "b": many}, 2) is many[0]
    assert KnownHosts().surplus({"a": [old], "b": many}, 3) is old


def test_a_known_host_gives_way_where_there_is_no_stranger() -> None:
    hosts = KnownHosts()
    hosts.add("a")
    a, b = Begun(1.0), Begun(2.0)
    assert hosts.surplus({"a": [a] * 9, "b": [b]}, 2) is b
    assert hosts.surplus({"a": [a]}, 2) is a


def test_so_many_hosts_are_remembered_and_no_more() -> None:
    hosts = KnownHosts()
    for number in range(KNOWN_MAX + 5):
        hosts.add(number)
        hosts.add(0)
    assert len(hosts) == KNOWN_MAX
    zero, one = Begun(2.0), Begun(1.0)
    assert hosts.surplus({0: [zero], 1: [one]}, 1) is one
