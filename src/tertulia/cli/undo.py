"""`tertulia undo`: takes back what a session did to the files of this directory, after showing what that changes."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.session_lookup import ResumeRequest
from tertulia.errors import NotFoundError
from tertulia.session.checkpoints.places import stored_folder
from tertulia.session.checkpoints.shadow import workspace_key
from tertulia.session.checkpoints.windows import Manifest, Window
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.settings.settings import LoadedSettings
from tertulia.session.settings.workspace import workspace_of
from tertulia.view.undo_text import restore_lines

_MORE = """
\b
Examples:
  tertulia undo
  tertulia undo --dry-run
  tertulia undo src/main.py
  tertulia undo --to 3f2a51c0 --yes

\b
Exit codes:
  0  done, or nothing to do; with --dry-run: shown
  1  there is nothing to undo, or it was refused; or you said no
  2  usage or configuration
"""


@click.command("undo", epilog=_MORE)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--to", metavar="ID", help="Go back to this checkpoint; `tertulia checkpoints` lists them.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Restore files, too, that others have changed since.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@global_flags
@click.pass_obj
def command(
    flags: GlobalFlags, *, paths: tuple[str, ...], to: str | None, dry_run: bool, force: bool, yes: bool
) -> int:
    """Take back what the last message of a session did to the files here.

    Shows first what it would do. All of it is done or nothing, and it can be undone itself. Files that others have
    changed since are named and left. Only PATHs, files or directories, are restored where any are given.
    """
    loaded = flags.load()
    window = _find(loaded, to)
    base = loaded.settings.cwd or os.curdir
    params: dict[str, Any] = {"id": to or window.id, "force": force}
    if paths:
        params["paths"] = [os.path.join(os.path.abspath(base), path) for path in paths]
    request = ResumeRequest.of(flags, loaded, window.session_id)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)

    async def run() -> int:
        host = Host(request.settings)
        try:
            session = await request.begin(host)
            shown = (await operate(host, session, "checkpoint/restore", {**params, "dry_run": True})).answer
            _write(out, shown)
            if shown["left"] and not shown["files"]:
                out.line("--force restores these; `tertulia checkpoints` lists older ones, for --to ID")
            if dry_run or not shown["files"]:
                return 0
            if not yes and not _agrees(out):
                return 1
            answer = (await operate(host, session, "checkpoint/restore", params)).answer
            out.line(f"restored {len(answer['files'])} files; `tertulia undo --to {answer['undo_id']}` takes this back")
            return 0
        finally:
            await host.close()

    return asyncio.run(run())


def stored_manifest(loaded: LoadedSettings) -> Manifest:
    """What is recorded of this directory."""
    workspace = workspace_of(loaded.settings)
    manifest = Manifest(stored_folder(loaded.environment.home) / workspace_key(workspace) / "windows.json")
    manifest.load(workspace)
    return manifest


def _find(loaded: LoadedSettings, to: str | None) -> Window:
    """The window that is undone: of the checkpoint, or the first one of the last message that changed something."""
    manifest = stored_manifest(loaded)
    if to is not None:
        return manifest.require(to)[0]
    changed = [w for w in manifest.windows if w.cause == "task" and not w.undone and (w.changed or w.after is None)]
    if not changed:
        raise NotFoundError(
            f"there is nothing to undo in {manifest.workspace}: no stored session has changed a recorded file here, or "
            "all of it is undone; `tertulia checkpoints` lists what is recorded"
        )
    last = max(changed, key=lambda window: window.began)
    return manifest.last_message(last.callers[0] if last.callers else last.conversation_id)[0]


def _write(out: TerminalOutput, answer: Any) -> None:
    for line in restore_lines(answer):
        out.line(line)


def _agrees(out: TerminalOutput) -> bool:
    if not sys.stdin.isatty():
        out.line("nothing was changed: give --yes, or answer at a terminal")
        return False
    return click.confirm("do it?", default=False)
