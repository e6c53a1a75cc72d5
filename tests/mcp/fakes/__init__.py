"""Servers for tests: small programs, real processes, honest or not.

`bare.py [--record FILE] [--tools NAMES] [--era 2025-06-18] [--define FILE]`
    Standard library only, old era, up in some 30 ms. Tools: `echo(text)`, `slow(seconds)` with progress, records
    `cancelled`, `ask(question)` elicits, `visit(url)` elicits by address, `sample(text)`, `roots`, `env(name?)`,
    `fail(text)` an error that the tool reports, `refuse` an error of the protocol, `size(bytes)` that much text,
    `picture`, `mixed` every kind of content, `structured`, `pid`, `define(tools)` changes its own definitions and says
    so, `die(code)`, `gate` is refused until a page was visited.
    FILE gets a line for each thing that happened: `start PID`, `call NAME`, `cancelled NAME`, `sigterm`, `eof`.
    With `--define` the answer to tools/list stands in that file, and is read again each time.
`plain.py [http PORT] [--record FILE] [--define FILE]`
    The SDK's low-level server, both eras, stdio or streamable HTTP. Tools: `echo`, `slow`, `ask`, `sample`, `env`,
    `change` (one more tool, and it says so to whoever listens). The port is printed as the first line when PORT is 0.
`hostile.py MODE [--record FILE]`
    Old era, everything of `bare.py`, and one bad habit. MODE is one of
    `dies-at-start`    exits with 3 after a line on stderr
    `dies-in-call`     exits with 5 in the middle of any call
    `cuts`             exits after as many bytes of its answer as the call's text says
    `floods`           5,000 times what the call's text says: progress, log, ping or elicit
    `hangs`            never answers anything
    `deaf`             stops reading at the first tools/list
    `ignores-sigterm`  and the end of its input
    `daemon`           leaves a double-forked setsid process with `--tag T` in its arguments
    `loud`             600 kB on stderr at the start and in each call
    `long-line`        answers any call in a line of `bytes`
    `no-newline`       the same, and never ends the line
    `wrong-ids`        before each answer: unknown, foreign and mistyped ids, results that are none
    `twice`            answers twice
    `storm`            20,000 times tools/list_changed in each call
    `html`             a page in place of JSON
    `bad-utf8`         before each answer
    `chatty`           prints greetings on stdout
    `endless-pages`    a new cursor each time
    `same-cursor`      always the same one
    `many-tools`       100,000 of them
    `duplicate-tools`  two called `echo`
    `sloppy`           results that are no results
    `toolless`         other things than tools, of which it knows nothing
    `asks-unasked`     elicits and samples outside any call
    `changes`          other definitions with each listing
    `closes-stdout`    in a call, and lives on
    `deep`             an answer nested 100,000 deep
    `slow-start`       1 s
    `bomb`             an output schema with a regex bomb, and a value for it
    `unreadable`       answers a call as its text says: deep, parts, list, bytes or cut; nothing follows
    `unlicensed`       answers initialize with error -32000 "License expired", and does not end by itself
    `strict`           ends when the first thing it hears is not initialize
`web.py MODE PORT [OTHER]`
    Over streamable HTTP, standard library only. Tools `echo` and `headers` show the headers of their call; `GET /seen`
    lists those of all calls. The port is printed as the first line when PORT is 0. MODE is `json`, `sse`, `html`,
    `redirect` (to port OTHER), `moved` (within), `gzip`, `drops` and `cut` (the connection, in a call), `endless`
    (body), `session-lost`
    (once), `many-parts` (an event of 1,000,000 objects in a call),
    `challenge` (401 without the right token, with OTHER as its resource_metadata),
    `hot-get` (its stream ends at once and says: retry now), `clings` (never answers a DELETE).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tertulia.mcp.config.definition import Http, ServerDefinition, Stdio
from tertulia.mcp.config.launch import Launch, resolve_launch

FOLDER = Path(__file__).parent
VARIABLES = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/"}


def bare(*options: str) -> tuple[str, ...]:
    """The command of a bare server."""
    return (sys.executable, "-I", "-S", str(FOLDER / "bare.py"), *options)


def plain(*options: str) -> tuple[str, ...]:
    """The command of a plain one."""
    return (sys.executable, str(FOLDER / "plain.py"), *options)


def hostile(mode: str, *options: str) -> tuple[str, ...]:
    """The command of one with this habit."""
    return (sys.executable, "-S", str(FOLDER / "hostile.py"), mode, *options)


def web(mode: str, *options: str, port: int = 0) -> tuple[str, ...]:
    """The command of one that is reached over HTTP."""
    return (sys.executable, "-S", str(FOLDER / "web.py"), mode, str(port), *options)


def by_stdio(
    argv: tuple[str, ...], *, name: str = "fake", env: Any = None, **fields: Any
) -> tuple[ServerDefinition, Launch]:
    """Its definition, and how it is started."""
    stdio = Stdio(command=argv[0], args=argv[1:], env=env or {}, cwd=str(FOLDER))
    definition = ServerDefinition(name=name, transport=stdio, **fields)
    return definition, resolve_launch(definition, VARIABLES)


def by_http(url: str, *, name: str = "fake", headers: Any = None, **fields: Any) -> tuple[ServerDefinition, Launch]:
    """The definition of one that runs already, and how it is reached."""
    definition = ServerDefinition(name=name, transport=Http(url=url, http_headers=headers or {}), **fields)
    return definition, resolve_launch(definition, VARIABLES)
