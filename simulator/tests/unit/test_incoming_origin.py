"""Hosts and origins: whose requests are let in."""

from __future__ import annotations

import pytest

from merlin_simulator.incoming import Hosts, find_refusal

#: This machine's, AWS's, and a bucket's or an account's under them; at any port.
OURS = """
    127.0.0.1:8090 127.0.0.1 127.9.9.9:1 [::1]:8090 localhost:8090 LocalHost:80
    localhost.:8090 bucket.localhost:8090 a.b.localhost host.docker.internal:8090
    s3.amazonaws.com bucket.s3.amazonaws.com my.bucket.s3.eu-west-1.amazonaws.com
    s3-us-west-2.amazonaws.com bucket.s3.dualstack.us-east-1.amazonaws.com
    api.sagemaker.us-east-1.amazonaws.com runtime.sagemaker.us-east-1.amazonaws.com
    123456789012.dkr.ecr.us-east-1.amazonaws.com sts.amazonaws.com
    monitoring.us-east-1.amazonaws.com
"""
#: A name that somebody may own, another machine's address, and what is no host at all.
OTHERS = """
    x evil.example:8090 localhost.evil.example evillocalhost:8090 127.0.0.1.evil.example
    127.0.0.1@evil.example evil.example@127.0.0.1 evil.example#localhost localhost:8090:8090
    localhost:port localhost,evil.example localhost/evil [::1 ::1 [fe80::1]:8090
    0.0.0.0:8090 192.168.1.5:8090 169.254.169.254 evil.amazonaws.com.evil.example
    s3.amazonaws.com.evil.example evils3.amazonaws.com ec2-1-2-3-4.compute-1.amazonaws.com
    evil-1.us-east-1.elb.amazonaws.com amazonaws.com simulator:8080 evil.internal.example
    lоcalhost
"""


@pytest.mark.parametrize("host", OURS.split())
def test_hosts_of_a_server_of_loopback(host: str) -> None:
    assert host in Hosts("127.0.0.1")


@pytest.mark.parametrize("host", ["", "localhost evil.example", *OTHERS.split()])
def test_other_hosts(host: str) -> None:
    assert host not in Hosts("127.0.0.1")


def test_a_server_of_all_addresses_is_asked_by_the_networks_names() -> None:
    """By a service's name of docker compose, or by any address; but by nobody's own name."""
    hosts = Hosts("0.0.0.0", "http://sim.corp.example:8090")
    for host in ("simulator:8080", "10.0.0.5:8080", "[fd00::1]", "localhost", "sim.corp.example"):
        assert host in hosts
    assert "bucket.sim.corp.example:8090" in hosts
    for host in ("evil.example", "simulator.evil.example", "corp.example"):
        assert host not in hosts


def test_the_given_host_is_taken() -> None:
    """And what lies under it; no other address."""
    assert "box.example:8090" in Hosts("Box.example")
    assert "bucket.box.example" in Hosts("box.example")
    assert "192.168.1.5:8090" in Hosts("192.168.1.5")
    assert "[FD00::1]:8090" in Hosts("fd00::1")
    assert "192.168.1.6" not in Hosts("192.168.1.5")


@pytest.mark.parametrize(
    ("origin", "site", "let_in"),
    [
        ([], [], True),
        ([], ["same-origin"], True),
        ([], ["none"], True),
        (["http://localhost:8090"], ["same-origin"], True),
        (["https://localhost:8090"], [], True),
        (["http://LOCALHOST:8090"], [], True),
        (["null"], [], False),
        ([""], [], False),
        (["http://evil.example"], [], False),
        (["http://localhost:3000"], [], False),
        (["http://localhost"], [], False),
        (["http://127.0.0.1:8090"], [], False),
        (["http://localhost:8090.evil.example"], [], False),
        (["http://localhost:8090", "http://evil.example"], [], False),
        (["chrome-extension://localhost:8090"], [], False),
        (["file://"], [], False),
        ([], ["cross-site"], False),
        ([], ["same-site"], False),
        ([], ["cross-site, none"], False),
        ([], ["none", "cross-site"], False),
    ],
)
def test_pages_of_other_origins(origin: list[str], site: list[str], let_in: bool) -> None:
    """Another scheme, host or port is another origin, on this machine, too."""
    why = find_refusal(Hosts("127.0.0.1"), "localhost:8090", origin, site)
    assert (why is None) == let_in
    assert why is None or why.endswith(".")


def test_default_ports_are_no_other_origin() -> None:
    """As a browser leaves them out."""
    hosts = Hosts("127.0.0.1")
    assert find_refusal(hosts, "localhost", ["http://localhost"], []) is None
    assert find_refusal(hosts, "localhost:443", ["https://localhost"], []) is None


def test_without_a_host() -> None:
    """Programs of HTTP/1.0 are let in; a page is not."""
    hosts = Hosts("127.0.0.1")
    assert find_refusal(hosts, None, [], []) is None
    assert find_refusal(hosts, None, ["http://localhost"], []) is not None
