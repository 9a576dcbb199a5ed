"""Goal: who guesses passwords is held back, and nobody else."""

from __future__ import annotations

from gateway.trust.shares.failed_attempts import FailedAttempts


def fail(attempts: FailedAttempts, address: str, times: int, now_s: float = 0.0) -> None:
    for _ in range(times):
        attempts.failed(address, now_s)


def test_an_address_is_blocked_after_so_many_failures_and_another_is_not() -> None:
    attempts = FailedAttempts(3, 0.1)
    fail(attempts, "192.0.2.1", 2)
    assert not attempts.is_blocked("192.0.2.1", 0)
    fail(attempts, "192.0.2.1", 1)
    assert attempts.is_blocked("192.0.2.1", 0)
    assert not attempts.is_blocked("192.0.2.2", 0)


def test_failures_are_forgiven_at_the_rate_that_is_given() -> None:
    attempts = FailedAttempts(3, 0.1)
    fail(attempts, "192.0.2.1", 3)
    assert attempts.is_blocked("192.0.2.1", 9.9)
    assert not attempts.is_blocked("192.0.2.1", 10.1)
    attempts.failed("192.0.2.1", 10.1)
    assert attempts.is_blocked("192.0.2.1", 10.2)


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    attempts = FailedAttempts(2, 0.1)
    fail(attempts, "2001:db8::1", 1)
    fail(attempts, "2001:db8::ffff:2%eth0", 1)
    assert attempts.is_blocked("2001:db8::3", 0)
    assert not attempts.is_blocked("2001:db8:0:1::3", 0)


def test_an_ipv4_address_in_ipv6_form_is_the_same() -> None:
    attempts = FailedAttempts(2, 0.1)
    fail(attempts, "::ffff:192.0.2.1", 2)
    assert attempts.is_blocked("192.0.2.1", 0)
    assert not attempts.is_blocked("::ffff:192.0.2.2", 0)


def test_no_more_addresses_are_remembered_than_allowed() -> None:
    attempts = FailedAttempts(1, 0.1, addresses_max=10)
    for i in range(100):
        attempts.failed(f"192.0.2.{i}", 0)
    assert len(attempts) == 10
    assert attempts.is_blocked("192.0.2.99", 0)


def test_an_ipv6_customer_is_one_whichever_of_its_own_64_bits_differ() -> None:
    attempts = FailedAttempts(2, 0.1)
    fail(attempts, "2001:db8::1", 1)
    fail(attempts, "2001:db8::8000:0:0:1", 1)
    assert attempts.is_blocked("2001:db8::ffff:ffff:ffff:ffff", 0)
    assert not attempts.is_blocked("2001:db8:0:1::1", 0)
