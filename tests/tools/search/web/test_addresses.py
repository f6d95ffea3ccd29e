"""Which addresses count as public."""

import pytest

from tools.search.web.addresses import is_allowed, resolve


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_public_addresses_are_allowed(address):
    assert is_allowed(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_other_addresses_are_refused_in_every_spelling(address):
    assert not is_allowed(address)


def test_a_network_can_be_allowed_besides():
    assert is_allowed("10.1.2.3", ["192.168.0.0/16", "10.1.0.0/16"])
    assert not is_allowed("10.2.2.3", ["10.1.0.0/16", "fd00::/8"])


async def test_numbers_that_look_like_names_are_resolved_to_what_they_mean():
    for host in ("127.1", "2130706433", "0x7f.1"):
        assert await resolve(host, 80) == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a..example"])
async def test_what_cannot_be_a_host_name_is_not_known(host):
    with pytest.raises(OSError, match="not a host name"):
        await resolve(host, 80)
