import sys
from pathlib import Path
root = Path(sys.argv[1]); p = root / "CONTRIBUTING.md"; t = p.read_text()
i = t.index("The source tree is the way of a message"); j = t.index("## What the machine holds")
t = t[:i] + '''The source tree follows a message from the program that takes it down to the data types it is made of. A folder is a
stage, a folder inside it is a family, a file is a noun or an act; each folder's `__init__` says what it is for. A folder
in italics has its place but no code yet.

| folder | what happens there | families |
|---|---|---|
| `cli`, `testing` | the program `tertulia`, a verb a file; what tests of your own use | `exec` `sessions` `mcp` `serve` `output` |
| `server`, *`cluster`* | a request arrives and is parsed, once, into a frozen type | `jsonrpc` `http` `acp` `codex` `mcp` |
| `session` | finds the conversation, owns what conversations share | `settings` `resume` `agents` `approvals` `mcp` |
| `scheduler` | decides which chain runs next, and keeps every started task | |
| `conversation` | the state of one conversation, and the turn loop | |
| `prompt`, `context` | what the model sees; what an agent is told first | `context/providers` |
| `tools`, `executors` | what the model can do; other programs that do a conversation's work | `shell` `patch` `mcp`; `command` `acp` `prompt` |
| `models`, `mcp` | the wires to models; MCP servers | `http` `local` `scripted`; `config` `client` `pool` `serve` |
| `history`, `rollout` | the items of a conversation in memory; the records of a session on disk | `format` `sqlite` `sweep` |
| `sandbox` | running a command confined | `launcher` `mounts` `masks` `limits` `protected` |
| `policy` | what is allowed; it only ever narrows | `approvals` `commands` |
| `events` | the event bus: stamped once, committed before delivery | |
| `protocol` | frozen data that all stages use | |
| `schema` | whether arguments fit a JSON Schema, in bounded time | |
| `errors` | what can go wrong, each with its code | |

A folder may import from the rows below its own, never from above and never from its neighbour in the row; an import
for types only counts as well. Families of a stage import each other one way or not at all (`pyproject.toml` says which).
Where you need to reach up, put a small `Protocol` on the lower side and implement it above.

## Glossary

One word for one thing, in Python, on the wire, in the docs, in file names and in variables.

| word | what it is |
|---|---|
| session | the container of conversations; owns what they share |
| conversation | one isolated history with its instructions, tools, model and storage policy; the root always exists |
| task | one run caused by an input or a plan; has exactly one end |
| turn | one model request with its answer |
| chain | the tasks that one submission caused, as a stack: target above caller |
| handoff | what an interrupting tool call returns to the scheduler |
| target, continuation | the task that a handoff starts; the caller's task that takes its result |
| item | one entry of a history: message, call, output, reasoning, summary |
| event | what happened, numbered, for clients |
| record, rollout | what of it is stored; the store of a session |
| tool, tool call | something a model can use; one use of it |
| approval, grant | a question to a person; a yes that holds longer than once |
| rights, policy, narrowing | what may be done; where that is decided; the meet of asked and allowed |
| limits | numbers that bound a conversation |
| MCP server, server pool, view, allowlist | a process or address; shared ones; what a conversation sees of them; by which list |
| context provider | tells an agent something before it starts |
| agent | a conversation with an identity |
| executor, backend | another program that does a conversation's work; who does it: native, executor or ACP |
| wire, dialect | the connection to a model's API; its spelling |
| surface, client, host | a way in; a program that uses one; the process |
| settings, workspace, sandbox tier | how a session is configured; where it works; how commands are confined |

Names say what a thing is: no participles and pronouns (`Said`, `Settled`), no metaphors. Terms of art are fine: nursery,
bus, ring, journal, ledger, pool, lease, backoff, sanitiser, fingerprint, mask, tombstone. `tests/test_architecture.py` refuses
the words that were used before.

''' + t[j:]
t = t.replace("or core; a module without a docstring or without a test file;", "or core; a folder with more than 20 files or without tests; a public class name twice; a module without a docstring;")
t = t.replace("`print` (`apps`)", "`print` (`cli`)")
p.write_text(t)
