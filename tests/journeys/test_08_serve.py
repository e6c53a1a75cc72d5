"""I build a web page or a service in another language, and want a server that I can talk to.

Issue 19, "Done when", journey 8. The client is the one under clients/python, in a program of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.deadlines import HANG_S
from tests.journeys.person import ROOT, Person
from tests.journeys.provider import calls, serving

CLIENT = """
import asyncio
import sys

from tertulia_client import connect

url, token = sys.argv[1], open(sys.argv[2]).read()


async def main() -> None:
    async with connect(url, token) as client:
        await client.initialize(client={"name": "page"}, attend=True)
        events = client.events()
        opened = await client.conversation_open(title="helper", approval_policy="untrusted")
        asking = asyncio.ensure_future(
            client.conversation_message(conversation_id=opened["conversation_id"], text="Make it")
        )
        async for event in events:
            if event["type"] == "approval_request":
                await client.approval_resolve(approval_id=event["data"]["approval_id"], decision="deny")
            if event["type"] == "task_complete":
                break
        print((await asking)["last_assistant_message"])


asyncio.run(main())
"""


def get(url: str, token: str | None = None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(url, headers=headers), timeout=HANG_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_server_answers_a_browser_a_monitor_and_a_client(person: Person) -> None:
    program = person.writes("page.py", CLIENT)
    with serving(calls("shell", command=["touch", "made"]), "You said no.") as provider:
        person.configures(f'model = "mine/qwen3"\n[model_providers.mine]\nbase_url = "{provider.url}"\nwire = "chat"\n')
        line = ["tertulia", "serve", "--port", "0"]
        with subprocess.Popen(
            line, cwd=person.project, env=person.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as server:
            try:
                assert server.stdout
                # One line of JSON says where it is, and where the token lies.
                where = json.loads(server.stdout.readline())
                assert os.stat(where["token_file"]).st_mode & 0o777 == 0o600

                # Opened in a browser it says what it is; a monitor needs no token; all else does.
                assert "tertulia" in get(where["url"])[1].lower()
                assert get(f"{where['url']}/health")[0] == 200
                assert get(f"{where['url']}/openapi.json")[0] == 401

                # A second server at the same port is told which flag to use.
                port = where["url"].rpartition(":")[2]
                second = person.tertulia("serve", "--port", port)
                assert second.code == 2
                assert "`--port 0` takes any that is free" in second.err

                # The client opens a conversation, is asked, says no, and gets the answer.
                person.exports(PYTHONPATH=str(ROOT / "clients/python"))
                ran = person.runs(sys.executable, str(program), where["url"], where["token_file"])
                assert (ran.code, ran.out) == (0, "You said no.\n"), ran.err
                assert not (person.project / "made").exists()
            finally:
                server.send_signal(signal.SIGTERM)
            assert server.wait(HANG_S) == 0
