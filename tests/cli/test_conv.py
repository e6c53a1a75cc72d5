"""`tertulia conv`: conversations of a stored session, by hand. S004-37."""

from __future__ import annotations

import io
import json
import sys

import pytest

from tests.cli.running import Shell
from tests.cli.stored_sessions import DELEGATING, held, run_session

ACTS = ("ls", "create", "send", "history", "merge", "destroy", "call")


def listed(shell: Shell) -> list[dict[str, object]]:
    return shell.run("conv", "ls", "--last", "--json").lines


def test_the_group_alone_shows_its_help(shell: Shell) -> None:
    ran = shell.run("conv")
    assert ran.code == 0
    assert all(f"  {act} " in ran.out for act in ACTS)


@pytest.mark.parametrize("act", ACTS)
def test_every_act_has_examples_and_the_global_flags(shell: Shell, act: str) -> None:
    ran = shell.run("conv", act, "--help")
    assert ran.code == 0
    assert "Examples:\n" in ran.out
    assert "--model" in ran.out


def test_a_session_must_be_named(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("conv", "ls")
    assert ran.code == 2
    assert "Give its ID or --last" in ran.err


def test_the_conversations_as_a_tree_and_as_lines(shell: Shell) -> None:
    session_id = run_session(shell, *DELEGATING)
    ran = shell.run("conv", "ls", "--session", session_id[:8])
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == ["CONVERSATION", "root", "└"]
    assert [(line["title"], line["depth"], line["status"]) for line in listed(shell)] == [
        (None, 0, "idle"),
        ("reviewer", 1, "idle"),
    ]


def test_a_run_and_a_list_name_conversations_alike(shell: Shell) -> None:
    """S004-33: what each said, by its name; the caller's task says that it waits; `conv ls` has the ids."""
    ran = shell.run("exec", "-m", shell.script(*DELEGATING), "go")
    assert (ran.code, ran.out) == (0, "The reviewer says it looks right.\n")
    notes = ran.err.splitlines()
    waits = next(number for number, note in enumerate(notes) if note.startswith("waits goes on when"))
    assert notes[waits + 1] == "reviewer said Looks right."
    assert not [note for note in notes[:waits] if note.startswith("reviewer ")]
    shown = shell.run("conv", "ls", "--last").out
    assert all(str(line["id"]) in shown for line in listed(shell))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("conv_create", {"user_instruction": "hi", "title": "made"}),
        ("conv_create", {}),
        ("conv_create", {"user_instruction": "hi", "base_instruction_file": "gone.md"}),
        ("conv_send", {"conversation_id": "nobody", "text": "hi"}),
        ("conv_history", {"conversation_id": "root", "limit": 1}),
        ("conv_history", {"conversation_id": "root", "limit": 0}),
        ("conv_list", {}),
        ("conv_destroy", {"conversation_id": "root"}),
    ],
)
def test_a_person_and_the_model_get_the_same_answer(shell: Shell, name: str, arguments: dict[str, object]) -> None:
    """S004-37: one code for both. What differs is what changes with every call: ids, times, the state of the caller."""
    called = {"tool_calls": [{"name": name, "arguments": arguments, "call_id": "c"}]}
    target = ["Hello."] if "title" in arguments else []
    ran = shell.run("exec", "--json", "-m", shell.script(called, *target, "Done."), "go")
    by_model = next(
        json.loads(line["item"]["output"])
        for line in ran.lines
        if line["type"] == "item.completed" and line["item"]["type"] == "tool_call"
    )
    shell.run("exec", "-m", shell.script("Hello.", repeat=True), "go")
    (by_hand,) = shell.run("conv", "call", name, json.dumps(arguments), "--last").lines
    assert set(by_hand) == set(by_model)
    fixed = {"ok", "code", "reason", "status", "last_assistant_message", "first_user_message"}
    assert {key: by_hand[key] for key in fixed & set(by_hand)} == {key: by_model[key] for key in fixed & set(by_model)}


def test_a_limit_refuses_a_person_as_it_refuses_the_model(shell: Shell) -> None:
    """S004-37: found out only when the target is to be opened."""
    few = ("-c", "limits.max_conversations=1")  # besides the root
    called = {"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "hi"}, "call_id": "c"}]}
    ran = shell.run("exec", "--json", "-m", shell.script(called, "Child.", called, "Done."), *few, "go")
    outputs = [line["item"]["output"] for line in ran.lines if line.get("item", {}).get("output")]
    shell.script("Hello.")
    by_hand = shell.run("conv", "call", "conv_create", '{"user_instruction": "hi"}', "--last", *few)
    assert by_hand.code == 1
    assert by_hand.lines == [json.loads(outputs[-1])]
    assert by_hand.lines[0]["code"] == "limit"


def test_a_conversation_is_opened_with_a_first_word(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("conv", "create", "--last", "--title", "helper", "--instructions", "Be brief.", "Hello?")
    assert (ran.code, ran.out) == (0, "Good morning.\n")
    root, helper = listed(shell)
    assert (helper["title"], helper["message_count"], helper["parent_id"]) == ("helper", 2, root["id"])
    assert root["message_count"] == 2


def test_a_conversation_is_opened_and_nothing_said(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("conv", "create", "--last")
    assert ran.code == 0
    assert [line["id"] for line in listed(shell)][1] == ran.out.strip()
    opened = shell.run("conv", "create", "--last", "--json", "--title", "one").lines[0]
    assert opened["conversation_id"] == listed(shell)[2]["id"]


def test_a_word_to_one_of_them_and_what_was_said(shell: Shell) -> None:
    run_session(shell, *DELEGATING)
    child = str(listed(shell)[1]["id"])
    shell.script("And it still does.")
    ran = shell.run("conv", "send", child[:8], "Still?", "--last")
    assert (ran.code, ran.out) == (0, "And it still does.\n")
    history = shell.run("conv", "history", child, "--last", "--limit", "2")
    assert history.out == "user      Still?\nassistant And it still does.\n"
    lines = shell.run("conv", "history", child, "--last", "--json").lines
    assert [line["text"] for line in lines] == ["Review a.py", "Looks right.", "Still?", "And it still does."]


def test_events_of_the_one_that_was_spoken_to(shell: Shell) -> None:
    session_id = run_session(shell, *DELEGATING)
    child = listed(shell)[1]["id"]
    shell.script("Yes.")
    lines = shell.run("conv", "send", str(child), "Still?", "--last", "--json").lines
    assert lines[0]["thread_id"] == session_id
    assert {line["conversation_id"] for line in lines[1:]} == {child}
    assert lines[-1]["type"] == "turn.completed"


def test_a_failed_answer_is_exit_code_1(shell: Shell) -> None:
    run_session(shell)
    shell.script({"error": "overloaded"})
    assert shell.run("conv", "send", "root", "Hello?", "--last").code == 1


def test_one_is_closed_and_stays_closed(shell: Shell) -> None:
    run_session(shell, *DELEGATING)
    child = str(listed(shell)[1]["id"])
    ran = shell.run("conv", "destroy", child[:8], "--last")
    assert (ran.code, ran.out) == (0, f"{child} is closed\n")
    assert len(listed(shell)) == 1
    again = shell.run("conv", "destroy", child, "--last")
    assert again.code == 1
    assert "is closed" in again.err


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["send", "nobody", "hi"], 1, "conversation not found"),
        (["send", "root"], 2, "there is no PROMPT"),
        (["send", "root", " "], 2, "empty"),
        (["history", "nobody"], 1, "conversation not found"),
        (["history", "root", "--limit", "0"], 2, "--limit"),
        (["destroy", "root"], 2, "cannot be closed alone"),
        (["call", "shell", "{}"], 2, "conv_create, conv_send"),
        (["call", "conv_list", "{"], 2, "no JSON object"),
        (["call", "conv_list", "[]"], 2, "no JSON object"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_everything_as_it_was(
    shell: Shell, arguments: list[str], code: int, expected: str
) -> None:
    run_session(shell)
    before = listed(shell)
    ran = shell.run("conv", *arguments, "--last")
    assert (ran.code, ran.out) == (code, "")
    assert expected in ran.err
    assert len(ran.err.splitlines()) == 1
    assert listed(shell) == before


def test_a_session_in_use_is_refused_with_its_id_and_its_file(shell: Shell) -> None:
    """HARDENING F9."""
    session_id = run_session(shell)
    with held(shell, session_id):
        ran = shell.run("conv", "ls", "--last")
    assert ran.code == 1
    assert f"session {session_id}" in ran.err
    assert f"{session_id}.db" in ran.err


# ---- call


@pytest.mark.parametrize("name", ["conv_create", "conv.create"])
def test_a_tool_is_called_as_root_would(shell: Shell, name: str) -> None:
    run_session(shell)
    ran = shell.run("conv", "call", name, '{"user_instruction": "hi", "title": "made"}', "--last")
    assert ran.code == 0
    (answer,) = ran.lines
    assert (answer["ok"], answer["last_assistant_message"]) == (True, "Good morning.")
    assert [line["message_count"] for line in listed(shell)] == [2, 2]


def test_a_refusal_is_an_answer_and_exit_code_1(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("conv", "call", "conv_send", '{"conversation_id": "x", "text": "hi"}', "--last")
    assert ran.code == 1
    assert ran.lines == [{"ok": False, "code": "not_found", "reason": "conversation not found"}]


def test_arguments_from_standard_input_and_none(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run_session(shell)
    assert shell.run("conv", "call", "conv_list", "--last").code == 0
    text_iowrapper = io.TextIOWrapper(io.BytesIO(b'{"conversation_id": "root"}'), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", text_iowrapper)
    ran = shell.run("conv", "call", "conv_history", "-", "--last")
    assert [entry["text"] for entry in json.loads(ran.out)["entries"]] == ["hello", "Good morning."]


def test_storage_of_a_new_conversation_leaves_what_others_have_stored(shell: Shell) -> None:
    """Issue 19: `--storage` is the new conversation's; for the session it would erase every text, and is said."""
    run_session(shell, "hello there", "a quiet answer", "again")
    before = shell.run("conv", "history", "root", "--last").out
    assert "hello there" in before
    made = shell.run("conv", "create", "--last", "--storage", "headers-only", "be quiet")
    assert made.code == 0, made.err
    assert "erased" not in made.err
    assert shell.run("conv", "history", "root", "--last").out == before
    ran = shell.run("conv", "send", "root", "and now", "--last", "--storage", "headers-only")
    assert ran.code == 0, ran.err
    assert "the storage policy headers_only is stricter than before" in ran.err
    assert "hello there" not in shell.run("conv", "history", "root", "--last").out
