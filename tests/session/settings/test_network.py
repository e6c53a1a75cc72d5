"""Proxies and certificates from the settings and from the environment: what is used, shown and refused at start."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.network import network_access
from tertulia.session.settings.settings import load_settings
from tertulia.testing import ScriptedModel
from tests.contract.python_session import soon
from tests.contract.test_command_line import run, write_script
from tests.models.apis import CHAT
from tests.models.loopback_proxy import LoopbackProxy
from tests.models.mock_provider import MockProvider, Told
from tests.models.private_ca import HOST, make_ca, server_tls

BASIC = b64encode(b"ana:canary-pass").decode()


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("way", ["environment", "settings", "provider"])
async def test_a_session_asks_its_model_through_the_proxy_and_trusts_the_ca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Issue 24 (3): both by variables, and by settings; a provider can have certificates of its own."""
    ca = make_ca(tmp_path)
    provider: dict[str, Any] = {"base_url": f"https://{HOST}/v1", "wire": "chat"}
    async with (
        MockProvider(CHAT.answer(Told(text="Yes.")), server_tls(tmp_path)) as mock,
        LoopbackProxy(mock.port, password=BASIC) as proxy,
    ):
        address = f"http://ana:canary-pass@{proxy.place}"
        settings: dict[str, Any] = {}
        if way == "environment":
            monkeypatch.setenv("HTTPS_PROXY", address)
            monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        else:
            settings["proxy"] = {"https": address}
            (settings if way == "settings" else provider)["ca_file"] = str(ca)
        settings |= {"model": "acme/large", "model_providers": {"acme": provider}}
        async with tertulia.Session.start(tertulia.Settings(**settings)) as session:
            assert (await soon(session.root.message("Is it?"))).text == "Yes."
        assert "canary-pass" not in repr(tertulia.Settings(**settings))
    assert len(proxy.heads) == 1


def load(tmp_path: Path, *overrides: str, config: str = "", **environ: str) -> Any:
    (tmp_path / ".config/tertulia").mkdir(parents=True, exist_ok=True)
    (tmp_path / ".config/tertulia/config.toml").write_text(config)
    return load_settings(cwd=tmp_path, overrides=overrides, environ={"HOME": str(tmp_path), **environ})


def test_each_entry_says_where_it_comes_from_and_later_places_win(tmp_path: Path) -> None:
    config = '[proxy]\nhttps = "http://file:1"\nhttp = "http://file:1"\nno_proxy = ["a.test"]\n'
    loaded = load(
        tmp_path, 'proxy.http="none"', config=config, HTTPS_PROXY="http://ana:canary@env:2", NO_PROXY="b.test"
    )
    access = network_access(loaded.settings, loaded.environment)
    assert access.https_proxy is not None
    assert (access.https_proxy.place, access.http_proxy) == ("env:2", None)
    assert [entry.name for entry in access.exceptions] == ["b.test"]
    sources = {name: place for name, place in loaded.provenance.items() if name.startswith("proxy.")}
    assert sources == {
        "proxy.https": "environment HTTPS_PROXY",
        "proxy.http": "-c",
        "proxy.no_proxy": "environment NO_PROXY",
    }


def test_what_is_wrong_is_refused_at_start_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidParamsError, match=r"environment HTTPS_PROXY: proxy.https: only http:// and https://"):
        load(tmp_path, HTTPS_PROXY="socks5://canary@proxy.test")
    (tmp_path / "text.pem").write_text("no certificate")
    for value, problem in (
        (tmp_path / "gone.pem", "cannot be read: no such file or directory"),
        (tmp_path, "cannot be read|has no certificates"),
        (tmp_path / "text.pem", "has no certificates in PEM form"),
    ):
        loaded = load(tmp_path, SSL_CERT_FILE=str(value))
        with pytest.raises(InvalidParamsError, match=f"environment SSL_CERT_FILE: ca_file: {value} ({problem})"):
            network_access(loaded.settings, loaded.environment)
    loaded = load(tmp_path, SSL_CERT_DIR=str(tmp_path))
    with pytest.raises(InvalidParamsError, match=r"environment SSL_CERT_DIR: ca_dir: .* `openssl rehash`"):
        network_access(loaded.settings, loaded.environment)
    plain = Environment.read({"HOME": str(tmp_path), "HTTPS_PROXY": "http://"})
    with pytest.raises(InvalidParamsError, match=r"environment HTTPS_PROXY: proxy.https must be the address"):
        network_access(tertulia.Settings(), plain)


async def test_a_session_does_not_begin_with_a_wrong_file_of_any_provider(tmp_path: Path) -> None:
    provider = {"base_url": "https://acme.test", "wire": "chat", "ca_file": str(tmp_path / "gone.pem")}
    settings = tertulia.Settings(model=ScriptedModel([]), model_providers={"acme": provider})
    with pytest.raises(InvalidParamsError, match=r"model_providers\.acme\.ca_file: .* cannot be read"):
        async with tertulia.Session.start(settings):
            raise AssertionError
    with pytest.raises(InvalidParamsError, match=r"model_providers\.acme\.ca_file must be an absolute path"):
        tertulia.Settings(model_providers={"acme": {**provider, "ca_file": "gone.pem"}})


def test_doctor_shows_the_place_of_a_proxy_and_not_its_password(tmp_path: Path) -> None:
    model = write_script(tmp_path, ["Hello."])
    ran = run(tmp_path, "doctor", "-m", model, HTTPS_PROXY="http://ana:canary-pass@proxy.test:3128")
    rows = [line.split() for line in ran.out.splitlines() if "proxy.https" in line]
    assert rows == [["proxy.https", "proxy.test:3128", "environment", "HTTPS_PROXY"]]
    assert "canary" not in ran.out + ran.err
    bad = run(tmp_path, "exec", "-m", model, "hi", SSL_CERT_FILE=str(tmp_path / "gone.pem"))
    assert bad.code == 2
    assert "environment SSL_CERT_FILE: ca_file: " in bad.err
