"""`tertulia sessions fork`."""

from __future__ import annotations

import json

from tests.cli.keeping import DELEGATING, held, ids, run_session
from tests.cli.running import Shell


def said(shell: Shell, session_id: str) -> list[str]:
    shown = json.loads(shell.run("sessions", "show", session_id, "--json").out)
    return [message["text"] for message in shown["conversations"][0]["messages"]]


def test_it_prints_the_new_id_and_nothing_else(shell: Shell) -> None:
    old = run_session(shell, said="Which tea?")
    ran = shell.run("sessions", "fork", old[:8])
    new = ran.out.strip()
    assert (ran.code, ran.err, ran.out) == (0, "", f"{new}\n")
    assert ids(shell) == {old, new}
    assert said(shell, new) == ["Which tea?", "Good morning."]
    again = shell.run("exec", "resume", new, "and?")
    assert (again.code, again.out) == (0, "Good morning.\n")
    assert said(shell, old) == ["Which tea?", "Good morning."]


def test_at_a_round_at_an_item_and_at_nothing(shell: Shell) -> None:
    old = run_session(shell)
    shell.run("exec", "resume", "--last", "second")
    shown = json.loads(shell.run("sessions", "show", old, "--json").out)
    third = shown["conversations"][0]["messages"][2]["id"]
    assert said(shell, shell.run("sessions", "fork", old, "--at", "1").out.strip()) == ["hello", "Good morning."]
    assert len(said(shell, shell.run("sessions", "fork", old, "--at", third).out.strip())) == 3
    before = ids(shell)
    refused = shell.run("sessions", "fork", old, "--at", "9")
    assert (refused.code, refused.out) == (1, "")
    assert "there are 2 rounds" in refused.err
    assert ids(shell) == before


def test_another_conversation_of_a_session_in_use(shell: Shell) -> None:
    old = run_session(shell, *DELEGATING)
    shown = json.loads(shell.run("sessions", "show", old, "--json").out)
    child = shown["conversations"][1]["id"]
    with held(shell, old):
        new = shell.run("sessions", "fork", old, "--conversation", child[:8]).out.strip()
    assert said(shell, new) == ["Review a.py", "Looks right."]
