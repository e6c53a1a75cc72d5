"""`tertulia hooks`: lists the hooks of the settings and the project, and trusts those of the project."""

from __future__ import annotations

import json
import sys
from typing import Literal

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group
from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line
from tertulia.cli.output.trust_question import offer_trust, revoke_trust
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.policy.display_text import visible
from tertulia.protocol.name_hints import name_hint
from tertulia.session.hooks.hook_table import hooks_from_wire
from tertulia.session.hooks.project_hook import ProjectHook, trust_store
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia hooks ls
  tertulia hooks trust no-push

\b
A hook is a table of config.toml:
  [hooks.no-push]
  on = ["before_tool"]
  tools = ["shell", "bash", "exec_command"]
  command = ["python3", "/home/ana/hooks/no_push.py"]
"""
_MORE_LS = """
\b
Examples:
  tertulia hooks ls
  tertulia hooks ls --json
"""
_MORE_TRUST = """
\b
Examples:
  tertulia hooks trust no-push
  tertulia -C ~/project hooks trust no-push --yes
  tertulia hooks trust --revoke no-push

\b
Exit codes:
  0  it is trusted, or no longer is
  1  there is no such hook, or you said no
  2  there is no terminal to ask on, or it cannot be used
"""


class HookListing(msgspec.Struct, frozen=True):
    """One hook, as it is listed."""

    name: str
    status: Literal["active", "untrusted", "ignored", "unusable"]
    """`ignored`: a hook of the project, and the user's own settings have one of that name."""
    on: list[str]
    command: list[str]
    source: str
    error: str | None = None
    """Why it cannot be used, if so."""


command = verb_group("hooks", "List hooks, and trust those that a project defines.", _MORE)


@command.command("ls", epilog=_MORE_LS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags, *, as_json: bool) -> int:
    """Show which programs are asked about calls, tasks and approvals, and when."""
    loaded = flags.load()
    found = _listings(loaded)
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    if as_json:
        for listing in found:
            click.echo(json_line(listing), nl=False)
    elif not found:
        out.line("There are no hooks. `tertulia hooks --help` shows how one is set up.")
    else:
        rows: list[tuple[StyledText, ...]] = [
            (
                (visible(listing.name), "bold"),
                listing.status,
                ", ".join(listing.on),
                visible(listing.error or " ".join(listing.command)),
            )
            for listing in found
        ]
        write_columns(out, ("hook", "status", "asked at", "program"), rows)
    return 0


@command.command("trust", epilog=_MORE_TRUST)
@click.argument("name")
@click.option("sure", "-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("revoke", "--revoke", is_flag=True, help="Trust it no longer.")
@global_flags
@click.pass_obj
def trust(flags: GlobalFlags, *, name: str, sure: bool, revoke: bool) -> int:
    """Let a hook be asked that a project's file defines.

    The definition is shown as it is written, and trusted with the files of the project that it names: when any of them
    changes it has to be trusted again.
    """
    loaded = flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    hook, store = _find(loaded, name), trust_store(loaded.environment.home)
    if revoke:
        return revoke_trust(store, hook, out)
    hook.definition()
    answer = offer_trust(store, hook, out, lambda: _show(hook, out), verb="tertulia hooks trust", sure=sure)
    return 1 if answer == "refused" else 0


def _listings(loaded: LoadedSettings) -> list[HookListing]:
    settings, own = loaded.settings, loaded.settings.hooks
    found = [
        HookListing(hook.name, "active", list(hook.on), list(hook.command), loaded.provenance.get("hooks", "settings"))
        for hook in hooks_from_wire(own)
    ]
    store = trust_store(loaded.environment.home).read()
    projects: dict[str, ProjectHook] = {hook.name: hook for hook in settings.project_hooks}
    for hook in projects.values():
        status = "ignored" if hook.name in own else "active" if hook in store else "untrusted"
        try:
            definition = hook.definition()
        except InvalidParamsError as error:
            found.append(HookListing(hook.name, "unusable", [], [], hook.source, error.message))
        else:
            found.append(HookListing(hook.name, status, list(definition.on), list(definition.command), hook.source))
    return found


def _find(loaded: LoadedSettings, name: str) -> ProjectHook:
    hooks: dict[str, ProjectHook] = {hook.name: hook for hook in loaded.settings.project_hooks}
    if name in loaded.settings.hooks:
        raise NotFoundError(
            f"{name} is in your own settings and needs no trust; a project's hook of that name is ignored"
        )
    if name not in hooks:
        hint = name_hint(name, sorted(hooks)) if hooks else "there is none"
        raise NotFoundError(f"no file of this project defines a hook {name!r:.80}; {hint}")
    return hooks[name]


def _show(hook: ProjectHook, out: TerminalOutput) -> None:
    out.line((hook.name, "bold"), f", defined by {hook.source}:")
    # ASCII alone: nothing in it can look like something else.
    out.line(json.dumps(hook.entry, indent=2, ensure_ascii=True, default=str))
    for path in hook.files:
        out.line(f"It starts or reads {json.dumps(path)}, which is trusted as it is now.")
    out.line("What a shell text in it, or the program itself, starts or reads is not checked.")
    out.line(("It runs outside any sandbox, with all that you may do, and sees what calls are given.", "yellow"))
