"""Whom a definition may have a worker call."""

from collections.abc import Sequence
from ipaddress import ip_network

import pytest
from perdure_worker.egress.addresses import AddressRule
from perdure_worker.egress.lookup import AddressRefused, Lookup, NameUnresolved

PUBLIC = AddressRule([])


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.1.2.3",
        "169.254.169.254",
        "172.31.255.255",
        "192.0.0.8",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:5ef5:79fd::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%1",
        "fec0::1",
        "ff02::1",
        "no address",
    ],
)
def test_what_is_not_on_the_public_internet_is_refused(address: str) -> None:
    assert not PUBLIC.allows(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "100.63.255.255",
        "172.32.0.1",
        "2606:4700::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_public_addresses_may_be_called(address: str) -> None:
    assert PUBLIC.allows(address)


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("fd00::5", True),
        ("fd01::5", False),
    ],
)
def test_an_operator_may_allow_networks_of_the_inside(address: str, is_allowed: bool) -> None:
    rule = AddressRule([ip_network("10.1.0.0/16"), ip_network("fd00::/64")])
    assert rule.allows(address) is is_allowed


def lookup(*found: str) -> Lookup:
    async def resolve(_: str, __: int) -> Sequence[str]:
        return found

    return Lookup(resolve, PUBLIC)


async def test_of_a_hosts_addresses_only_those_that_may_be_called_are_tried() -> None:
    assert await lookup("10.0.0.1", "8.8.8.8", "::1").addresses("host", 80) == ["8.8.8.8"]


async def test_a_host_that_stands_for_the_inside_is_refused_without_telling_where_it_leads() -> (
    None
):
    with pytest.raises(AddressRefused) as refused:
        await lookup("10.0.0.1", "::1").addresses("db.internal", 5432)
    assert "db.internal" in str(refused.value)
    assert "10.0.0.1" not in str(refused.value)


async def test_a_host_without_an_address_is_unresolved() -> None:
    with pytest.raises(NameUnresolved):
        await lookup().addresses("nowhere", 80)
