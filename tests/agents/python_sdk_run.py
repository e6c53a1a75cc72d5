"""What a program with the official Codex SDK for Python does; run with that SDK on the path."""

from __future__ import annotations

import json
import sys
from typing import Any

from openai_codex import Codex, CodexConfig


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")


command, cwd, home = json.loads(sys.argv[1])
with Codex(CodexConfig(launch_args_override=tuple(command), cwd=cwd, env={"HOME": home})) as codex:
    say(server=codex.metadata.serverInfo.name)
    thread = codex.thread_start()
    result = thread.run("first")
    say(id=thread.id, answer=result.final_response, tokens=result.usage.total.total_tokens)
    items = thread.read(include_turns=True).thread.turns[0].items
    say(items=[item.root.type for item in items])
    fork = codex.thread_fork(thread.id)
    say(fork=fork.id, methods=[note.method for note in fork.turn("second").stream()])
    say(listed=sorted(listed.id for listed in codex.thread_list().data))
    codex.thread_archive(thread.id)
    say(listed=sorted(listed.id for listed in codex.thread_list().data))
    codex.thread_unarchive(thread.id)
    again = codex.thread_resume(thread.id)
    say(id=again.id, answer=again.run("third").final_response)
    again.compact()
    say(models=[model.id for model in codex.models().data])
