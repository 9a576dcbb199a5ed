"""Another life of a gateway is in the tree only if that life itself says so."""

from __future__ import annotations

from gateway.node.signing.life_proof import DISBELIEVED_S, MAX_SILENT, WAIT_S, LifeProof
from tree_handler.batch import Entry, Flags, Header


class World:
    """Gateways whose messages all hear, each under its own name and life."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lives: list[LifeProof] = []
        self.said: list[tuple[Entry, Header]] = []

    def gateway(self, name: str, epoch: int) -> LifeProof:
        def publish(topic: str, payload: bytes) -> None:
            header = Header(name, epoch, 1, 1, Flags.CONTROL, 0, 0, 0)
            self.said.append((Entry(topic, payload), header))

        made = LifeProof(name, epoch, publish, lambda: self.now)
        self.lives.append(made)
        return made

    def all_hear(self) -> None:
        while self.said:
            entry, header = self.said.pop(0)
            for life in self.lives:
                life.receive(entry, header)


def test_a_life_that_is_there_keeps_another_out() -> None:
    world = World()
    asker, _ = world.gateway("gw-b", 1), world.gateway("gw-a", 5)
    for _ in range(3):
        assert asker.is_there("gw-a", 5)
        world.all_hear()
        world.now += 2 * WAIT_S


def test_a_life_of_which_a_neighbour_lies_keeps_nobody_out_for_long() -> None:
    world = World()
    asker, _, liar = world.gateway("gw-b", 1), world.gateway("gw-a", 6), world.gateway("gw-x", 1)
    assert asker.is_there("gw-a", 5)
    world.all_hear()
    world.now += WAIT_S
    for _ in range(10):
        assert not asker.is_there("gw-a", 5)
        world.now += DISBELIEVED_S / 20
    assert liar.is_there("gw-a", 6)


def test_nobody_answers_for_another_nor_with_an_old_answer() -> None:
    world = World()
    asker, life = world.gateway("gw-b", 1), world.gateway("gw-a", 5)
    asker.is_there("gw-a", 5)
    old = world.said[0][0]
    world.all_hear()
    world.now += 2 * WAIT_S
    assert asker.is_there("gw-a", 5) and not world.said  # it has answered
    world.now += 100.0
    world.lives.remove(life)
    assert asker.is_there("gw-a", 5)
    entry = Entry("$hedgerow/alive/answer/gw-b", old.payload)
    asker.receive(entry, Header("gw-a", 5, 1, 1, Flags.CONTROL, 0, 0, 0))
    asker.receive(world.said[0][0], Header("gw-x", 5, 1, 1, Flags.CONTROL, 0, 0, 0))
    asker.receive(Entry(entry.topic, b"no answer"), Header("gw-a", 5, 1, 1, 0, 0, 0, 0))
    world.now += WAIT_S
    assert not asker.is_there("gw-a", 5)


def test_who_names_a_new_life_each_time_keeps_nobody_out_for_long_either() -> None:
    world = World()
    asker, _ = world.gateway("gw-b", 1), world.gateway("gw-a", 500)
    waited = [asker.is_there("gw-a", life) for life in range(100)]
    assert sum(waited) == MAX_SILENT
    assert not asker.is_there("gw-a", 99)
    assert asker.is_there("gw-c", 1), "others are waited for"
    asker.is_there("gw-a", 500)
    world.all_hear()
    assert asker.is_there("gw-a", 500), "it has answered"
    world.now += DISBELIEVED_S
    assert asker.is_there("gw-a", 7)


def test_a_thousand_lives_that_were_asked_for_are_remembered_and_the_first_goes_first() -> None:
    world = World()
    asker = world.gateway("gw-me", 1)
    for number in range(1_000):
        assert asker.is_there(f"gw-{number}", 1)
    assert len(world.said) == 1_000
    assert asker.is_there("gw-0", 1)
    assert len(world.said) == 1_000
    assert asker.is_there("gw-more", 1)
    assert asker.is_there("gw-1", 1)
    assert len(world.said) == 1_001
    assert asker.is_there("gw-0", 1)  # forgotten, so it is asked anew
    assert [entry.topic for entry, _ in world.said[1_000:]] == [
        world.said[0][0].topic.replace("gw-0", name) for name in ("gw-more", "gw-0")
    ]
