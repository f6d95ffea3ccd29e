"""Which network addresses pages may be read from.

Addresses of pages come from models and from pages, so without a check they could reach services of this machine and
its network that trust their neighbours.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


async def resolve(host: str, port: int) -> list[str]:
    """The IP addresses of a host, in the order to try them.

    Raises:
        OSError: the name is not known.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
    except UnicodeError as error:  # from the IDNA codec: a label is empty or too long
        raise OSError(f"not a host name ({error})") from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def is_allowed(address: str, networks: Iterable[str] = ()) -> bool:
    """Whether the address is public, or in one of the `networks` (`10.1.0.0/16`) that are allowed besides."""
    ip = ipaddress.ip_address(address)
    return is_public(ip) or any(ip in ipaddress.ip_network(network) for network in networks)


def is_public(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether the address is one host of the public Internet: global, not multicast.

    An IPv6 address that stands for an IPv4 one (mapped, 6to4, NAT64) is judged by the latter.
    """
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        if inner is None:
            return ip in _UNICAST and ip.is_global
        ip = inner
    return ip.is_global and not ip.is_multicast
