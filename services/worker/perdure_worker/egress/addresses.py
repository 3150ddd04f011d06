"""Which addresses a definition may have a worker call.

Only public ones, unless an operator lists others: a definition is written by a tenant, and what
stands beside the worker (databases, the cloud's metadata, the cluster) trusts its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NEVER_PUBLIC: Sequence[Network] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers, and by some clouds for their metadata
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, the usual place of a cloud's metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays to IPv6
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # measurements
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
"""IPv4 networks that are not the public internet."""

PUBLIC_IPV6 = ip_network("2000::/3")
"""All of IPv6 that is given out for the public internet; whatever lies outside is refused."""

NEVER_PUBLIC_IPV6: Sequence[Network] = tuple(
    ip_network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo among them: it hides another address
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)

NAT64 = IPv6Network("64:ff9b::/96")


class AddressRule:
    """What may be called: public addresses, and those in the `allowed` networks."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = tuple(allowed)

    def allows(self, text: str) -> bool:
        """Tell whether the address may be called; a text that is no address may not."""
        try:
            given = ip_address(text)
        except ValueError:
            return False
        meant = _meant(given)
        return is_public(meant) or any(meant in one or given in one for one in self._allowed)


def is_public(address: Address) -> bool:
    """Tell whether an address, as it is meant, is one of the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NEVER_PUBLIC)
    if address not in PUBLIC_IPV6:
        return False
    return not any(address in network for network in NEVER_PUBLIC_IPV6)


def _meant(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one carries, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    carried = address.ipv4_mapped or address.sixtofour
    if carried is not None:
        return carried
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
