"""Proxies and NO_PROXY: which address a request takes, what is refused, and that no password is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.network.access import ProxyAddress, access_from_table, proxy_table
from tests.tables import each_row

SECRET = "canary"


@each_row(
    ("no_proxy", "url", "direct"),
    [
        ("", "https://api.acme.test/v1", False),
        ("*", "https://api.acme.test/v1", True),
        ("acme.test", "https://api.acme.test/v1", True),
        ("acme.test", "https://acme.test/v1", True),
        ("acme.test", "https://notacme.test/v1", False),
        (".acme.test", "https://api.acme.test/v1", True),
        ("*.acme.test", "https://api.acme.test/v1", True),
        ("ACME.Test.", "https://API.acme.TEST./v1", True),
        ("other.test, api.acme.test", "https://api.acme.test/v1", True),
        ("other.test api.acme.test", "https://api.acme.test/v1", True),
        ("api.acme.test:443", "https://api.acme.test/v1", True),
        ("api.acme.test:8443", "https://api.acme.test/v1", False),
        ("api.acme.test:8443", "https://api.acme.test:8443/v1", True),
        ("*:8443", "https://api.acme.test:8443/v1", True),
        ("10.1.2.3", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://11.1.2.3/v1", False),
        ("10/8", "https://10.1.2.3/v1", True),
        ("169.254/16", "https://169.254.169.254/", True),
        ("10.1.2.3:8080", "https://10.1.2.3/v1", False),
        ("fd00::/8", "https://[fd00::1]/v1", True),
        ("fd00::1", "https://[fd00::1]/v1", True),
        ("[fd00::1]:443", "https://[fd00::1]/v1", True),
        ("[fd00::1]:444", "https://[fd00::1]/v1", False),
        ("10.0.0.0/8", "https://ten.example/v1", False),
        ("bücher.test", "https://xn--bcher-kva.test/v1", True),
        (["acme.test", "10.0.0.0/8"], "https://api.acme.test/v1", True),
    ],
)
def test_hosts_suffixes_ports_and_networks_are_excepted(no_proxy: Any, url: str, direct: bool) -> None:
    access = access_from_table({"https": "http://proxy.test:3128", "no_proxy": no_proxy})
    assert (access.proxy_for(url) is None) is direct


@each_row(
    ("url", "loopback", "direct"),
    [
        ("http://127.0.0.1:8000/v1", False, True),
        ("http://127.9.9.9/v1", False, True),
        ("http://localhost/v1", False, True),
        ("http://model.localhost/v1", False, True),
        ("http://[::1]:8000/v1", False, True),
        ("http://[::ffff:127.0.0.1]/v1", False, True),
        ("http://127.0.0.1:8000/v1", True, False),
        ("http://128.0.0.1/v1", False, False),
        ("https://128.0.0.1/v1", False, True),
    ],
)
def test_this_machine_is_asked_directly_unless_asked_otherwise(url: str, loopback: bool, direct: bool) -> None:
    access = access_from_table({"http": "http://proxy.test", "loopback": loopback})
    assert (access.proxy_for(url) is None) is direct


@each_row(
    ("value", "place", "authorization"),
    [
        ("http://proxy.test:3128", "proxy.test:3128", None),
        ("proxy.test:3128", "proxy.test:3128", None),
        ("proxy.test", "proxy.test:80", None),
        ("https://proxy.test/", "proxy.test:443", None),
        ("http://[fd00::1]:3128", "[fd00::1]:3128", None),
        ("HTTP://ana:p%40ss@proxy.test:1", "proxy.test:1", "Basic YW5hOnBAc3M="),
        ("http://token@proxy.test:1", "proxy.test:1", "Basic dG9rZW46"),
    ],
)
def test_addresses_of_proxies(value: str, place: str, authorization: str | None) -> None:
    proxy = access_from_table({"https": value}).https_proxy
    assert proxy is not None
    assert (proxy.place, proxy.authorization) == (place, authorization)
    assert access_from_table({"https": proxy.url}).https_proxy == proxy
    assert "p@ss" not in repr(proxy)


@each_row("value", [None, "", "none"])
def test_there_may_be_none(value: Any) -> None:
    assert access_from_table({"https": value}).https_proxy is None


@each_row(
    ("table", "problem"),
    [
        ({"https": f"socks5://{SECRET}@proxy.test"}, "only http:// and https:// proxies can be used, not 'socks5'"),
        ({"https": f"http://{SECRET}@"}, "proxy.https must be the address of a proxy"),
        ({"https": f"http://u:{SECRET}@proxy.test:99999"}, "proxy.https must be the address of a proxy"),
        ({"https": f"http://u:{SECRET}@proxy.test:0"}, "proxy.https must be the address"),
        ({"https": f"http://u:{SECRET}@proxy.test/path"}, "proxy.https must be the address"),
        ({"https": f"http://u:{SECRET}@proxy.test?x=1"}, "proxy.https must be the address"),
        ({"https": f"http://u:{SECRET}@pro xy.test"}, "proxy.https must be the address"),
        ({"https": f"http://u:{SECRET}@proxy.test\r\nX: y"}, "proxy.https must be the address"),
        ({"https": f"http://[{SECRET}"}, "proxy.https must be the address"),
        ({"http": 3128}, "proxy.http must be the address"),
        ({"no_proxy": "10.0.0.0/99"}, "proxy.no_proxy: '10.0.0.0/99' is no host"),
        ({"no_proxy": "http://a.test"}, "is no host, address or network"),
        ({"no_proxy": "a.test:http"}, "is no host, address or network"),
        ({"no_proxy": "a.test:70000"}, "is no host, address or network"),
        ({"no_proxy": "a/b"}, "is no host, address or network"),
        ({"no_proxy": 5}, "proxy.no_proxy must be a list of hosts"),
        ({"no_proxy": [""]}, "proxy.no_proxy must be a list of hosts"),
        ({"loopback": "yes"}, "proxy.loopback must be true or false"),
        ({"ftp": "x"}, "proxy has no 'ftp'"),
        ("http://proxy.test", "proxy must be a table"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_value(table: Any, problem: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        access_from_table(table)
    assert problem in refused.value.message
    assert SECRET not in refused.value.message


def test_variables_count_in_small_letters_first_and_an_empty_one_takes_the_proxy_away() -> None:
    variables = {"HTTPS_PROXY": "http://a", "https_proxy": " http://b ", "http_proxy": "", "HTTP_PROXY": "http://c"}
    table = list(proxy_table({**variables, "NO_PROXY": "x"}))
    assert table == [
        ("https_proxy", "https", "http://b"),
        ("http_proxy", "http", ""),
        ("NO_PROXY", "no_proxy", "x"),
    ]


def test_secrets_are_the_password_in_every_form() -> None:
    access = access_from_table({"https": "http://ana:p%40ss@proxy.test", "http": "http://tok%2Fen@proxy.test"})
    assert set(access.secrets()) == {"p@ss", "p%40ss", "YW5hOnBAc3M=", "tok/en", "tok%2Fen", "dG9rL2VuOg=="}
    assert ProxyAddress("h", 1).url == "http://h:1"
