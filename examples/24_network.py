"""Commands reach the hosts that you name, and no others: a server on this machine stands for one of them."""

import asyncio
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import tertulia
from tertulia.testing import ScriptedModel, call, say


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        pass


async def main(port: int, folder: str) -> None:
    here, other = f"http://127.0.0.1:{port}/", "http://example.org/"
    # The proxy is for other machines; curl asks it for this one as well when no_proxy is empty.
    through = call("shell", {"command": ["env", "no_proxy=", "NO_PROXY=", "curl", "-sS", here]})
    settings = tertulia.Settings(
        model=ScriptedModel([through, call("shell", {"command": ["curl", "-sS", other]}), say("done")]),
        cwd=folder,
        network={"allow": [f"127.0.0.1:{port}"], "deny": ["*.internal"]},
    )
    async with tertulia.Session.start(settings) as session:
        await session.root.message("look at both")
        found: list[tuple[str, str]] = []
        async for event in session.events(after=0):
            if isinstance(event.data, tertulia.NetworkAccess):
                print(event.data.host, event.data.verdict, event.data.bytes, event.data.because)
                found.append((event.data.host, event.data.verdict))
            if event.type == "task_complete":
                break
        assert found == [("127.0.0.1", "allowed"), ("example.org", "refused")]
        # A conversation more only narrows.
        child = await session.open(network={"allow": ["github.com", f"127.0.0.1:{port}"]})
        assert (await child.context()).narrowed[0].given == {"allow": [f"127.0.0.1:{port}"], "deny": ["*.internal"]}


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(server.server_port, folder))
    print("only the host that was named was reached")
