"""The panel of approvals: what it shows, and what each of its keys answers."""

from __future__ import annotations

import asyncio
import random

import pytest
from textual import events

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalResolved, Decider
from tertulia.terminal.approvals.messages import PlanAnswered, WholeTextRequested
from tertulia.terminal.approvals.plan_question import PlanQuestion
from tests.terminal.approvals.panel_app import PanelApp, PanelPilot, panel_with, patch_question, question
from tests.terminal.screen import assert_golden, screen_text

LONG_PATCH = "\n".join(
    [
        "*** Begin Patch",
        "*** Update File: app.py",
        *(f"+value_{number} = {number}" for number in range(400)),
        "+THE NEEDLE",
        *(f"-value_{number} = {number}" for number in range(400)),
        "*** Add File: tests/test_total.py",
        "+def test_total(): ...",
        "*** End Patch",
    ]
)


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("y", ("approval-1", "allow", "once", None, None)),
        ("c", ("approval-1", "allow", "conversation", None, None)),
        ("s", ("approval-1", "allow", "session", None, None)),
        ("n", ("approval-1", "deny", None, None, None)),
    ],
)
async def test_a_key_answers_the_question_in_view(key: str, answer: tuple[object, ...]) -> None:
    async with panel_with(question()) as panel:
        await panel.press(key)
        assert panel.app.answers() == [answer]
        await panel.press("y")
        assert panel.app.answers() == [answer], "the second answer counted"


async def test_a_scope_that_is_not_offered_cannot_be_chosen() -> None:
    async with panel_with(question(scopes=["once"])) as panel:
        assert "for the session" not in panel.text
        await panel.press("c", "s", "p")
        assert panel.app.answers() == []
        assert "p is not offered for this question" in panel.text


async def test_a_yes_for_the_project_where_it_is_offered() -> None:
    async with panel_with(question(scopes=["once", "conversation", "session", "project"])) as panel:
        await panel.press("t", "p")
        assert panel.app.answers() == [("approval-1", "allow", "project", None, None)]


async def test_t_cycles_how_long_a_yes_holds() -> None:
    async with panel_with(question()) as panel:
        shown: list[bool] = []
        for words in ("for 5 min", "for 1 h", "for 8 h", "until it closes"):
            await panel.press("t")
            shown.append(words in panel.text)
        assert shown == [True] * 4
        await panel.press("t", "t", "s")
        assert panel.app.answers() == [("approval-1", "allow", "session", 3600.0, None)]


async def test_m_refuses_with_a_sentence_for_the_model() -> None:
    async with panel_with(question()) as panel:
        await panel.press("m", *"use tox", "enter")
        assert panel.app.answers() == [("approval-1", "deny", None, None, "use tox")]


async def test_escape_leaves_the_sentence_and_answers_nothing() -> None:
    async with panel_with(question()) as panel:
        await panel.press("m", *"use", "escape")
        assert panel.app.answers() == []
        assert panel.app.panel.has_focus


async def test_e_edits_the_command_and_refuses_it() -> None:
    async with panel_with(question(command="make test")) as panel:
        await panel.press("e", *" -k total", "enter")
        message = "Do not run that. Run this instead:\nmake test -k total"
        assert panel.app.answers() == [("approval-1", "deny", None, None, message)]


async def test_the_next_answer_is_for_all_of_the_same_digest() -> None:
    async with panel_with(question("a-1"), question("a-2", command="ls"), question("a-3")) as panel:
        assert "all 2 alike" in panel.text
        await panel.press("A", "y")
        assert [answer[:3] for answer in panel.app.answers()] == [("a-1", "allow", "once"), ("a-3", "allow", "once")]


async def test_a_key_walks_the_questions_and_the_oldest_comes_first() -> None:
    async with panel_with(question("a-1", command="one"), question("a-2", command="two")) as panel:
        assert "$ one" in panel.text
        assert "1 of 2" in panel.text
        await panel.press("tab")
        assert "$ two" in panel.text
        await panel.press("shift+tab", "n")
        assert panel.app.answers()[0][0] == "a-1"


async def test_enter_never_means_yes() -> None:
    async with panel_with(question()) as panel:
        await panel.press("enter", "enter", "space")
        assert panel.app.answers() == []


async def test_no_key_answers_in_the_moment_in_which_a_question_appears() -> None:
    async with panel_with(question("a-1"), question("a-2", command="ls")) as panel:
        await panel.press("y")
        panel.app.asking.take("c-tester", ApprovalResolved("a-1", "allow"))
        panel.app.show()
        await panel.pilot.press("y", "y", "y")
        assert [answer[0] for answer in panel.app.answers()] == ["a-1"]
        await panel.press("n")
        assert [answer[0] for answer in panel.app.answers()] == ["a-1", "a-2"]


async def test_what_is_pasted_into_the_panel_is_text_for_the_composer() -> None:
    async with panel_with(question()) as panel:
        panel.app.panel.post_message(events.Paste("yes"))
        await panel.pilot.pause()
        await panel.pilot.pause()
        assert panel.app.composer.text == "yes"
        assert panel.app.answers() == []


async def test_a_press_on_a_hint_is_its_key_but_not_the_press_that_brought_the_window_to_the_front() -> None:
    async with panel_with(question()) as panel:
        row = next(number for number, line in enumerate(panel.text.split("\n")) if " n no" in line)
        column = panel.text.split("\n")[row].index("n no")
        panel.app.app_focus = False
        panel.app.app_focus = True
        await panel.pilot.click(offset=(column, row))
        panel.app.clock.seconds += 1
        await panel.pilot.click(offset=(column, row))
        assert panel.app.answers() == [], "the press that chose the panel answered"
        panel.app.clock.seconds += 1
        await panel.pilot.click(offset=(column, row))
        assert panel.app.answers() == [("approval-1", "deny", None, None, None)]


async def test_the_time_left_changes_while_the_panel_is_in_view() -> None:
    async with panel_with(question()) as panel:
        panel.app.clock.seconds = 100
        panel.app.panel.tick()
        await panel.pilot.pause()
        assert "3:20" in panel.text


async def test_g_shows_all_that_a_yes_will_match() -> None:
    async with panel_with(question()) as panel:
        await panel.press("g")
        assert "directory: /home/ada/shop" in panel.text
        await panel.press("g")
        assert "directory: /home/ada/shop" not in panel.text


async def test_a_question_that_leaves_the_sandbox_says_so_in_a_word() -> None:
    async with panel_with(question(kind="escalation", sandbox="none")) as panel:
        assert "LEAVES IT" in panel.text
        assert "asks to leave the sandbox" in panel.text


async def test_the_reason_of_the_model_and_changed_files_are_shown_as_what_they_are() -> None:
    detail = "make\nin /home/ada/shop\nThe model's reason, in its own words:\n│ I need it"
    async with panel_with(question(command="make", detail=detail, changed=("Makefile",))) as panel:
        assert "The model's reason, in its own words:" in panel.text
        assert "│ I need it" in panel.text
        assert "CHANGED" in panel.text
        assert "Makefile" in panel.text


async def test_every_line_of_a_long_patch_can_be_reached() -> None:
    async with panel_with(patch_question(LONG_PATCH)) as panel:
        assert "app.py +2 −4" in panel.text
        assert "more rows, d shows them all" in panel.text
        await panel.press("d")
        found = False
        for _ in range(60):
            found = found or "THE NEEDLE" in panel.text
            await panel.pilot.press("pagedown")
        assert found
        assert "*** End Patch" in panel.text
        await panel.press("home", "n", "n")
        assert "file 2 of 2: tests/test_total.py" in panel.text
        await panel.press("p")
        assert "file 1 of 2: app.py" in panel.text
        await panel.press("y")
        assert panel.app.answers() == [], "a key of the reading screen answered"
        await panel.press("escape", "n")
        assert len(panel.app.answers()) == 1


async def test_a_yes_waits_until_all_of_the_text_is_here() -> None:
    cut = patch_question("*** Begin Patch\n⟨… 20,000 characters are not shown here …⟩", hidden=20_000, scopes=["once"])
    async with panel_with(cut) as panel:
        panel.app.panel.answer_failed("approval-1", "the server is gone")
        await panel.pilot.pause()
        assert [type(message) for message in panel.app.posted] == [WholeTextRequested], "it asks again and again"
        await panel.press("y")
        assert panel.app.answers() == []
        assert "not yet" in panel.text
        await panel.press("d", "escape")
        assert [type(message) for message in panel.app.posted] == [WholeTextRequested] * 2
        whole = "The patch:\n" + "\n".join(f"│ {line}" for line in LONG_PATCH.split("\n"))
        panel.app.panel.take_whole_text("approval-1", whole)
        await panel.press("d", "end")
        assert "│ *** End Patch" in panel.text
        await panel.press("escape", "y")
        assert panel.app.answers() == [("approval-1", "allow", "once", None, None)]


async def test_a_question_answered_elsewhere_says_by_which_client_and_goes() -> None:
    async with panel_with(question("a-1"), question("a-2", command="ls")) as panel:
        by = Decider("client", "editor")
        panel.app.asking.take("c-tester", ApprovalResolved("a-1", "deny", by=by))
        panel.app.show()
        await panel.pilot.pause()
        assert "run: python -m pytest -q: denied by the client editor" in panel.text
        assert "$ ls" in panel.text
        panel.app.clock.seconds += 10
        panel.app.panel.tick()
        await panel.pilot.pause()
        assert "denied by" not in panel.text


async def test_an_answer_that_failed_may_be_given_again() -> None:
    async with panel_with(question()) as panel:
        await panel.press("y")
        panel.app.panel.answer_failed("approval-1", "the server is gone")
        await panel.pilot.pause()
        assert "the server is gone" in panel.text
        await panel.press("n")
        assert [answer[1] for answer in panel.app.answers()] == ["allow", "deny"]


async def test_a_plan_is_asked_about_before_anything_is_written() -> None:
    async with panel_with() as panel:
        plan = PlanQuestion(conversation_id=ConversationId("c-root"), text="1. Read\n2. Change", key="plan:e1")
        panel.app.panel.show_plan(plan)
        panel.app.panel.focus()
        await panel.press("m", *"smaller", "enter")
        [answer] = panel.app.posted
        assert isinstance(answer, PlanAnswered)
        assert (answer.carry_out, answer.message) == (False, "smaller")
        panel.app.panel.show_plan(plan)
        assert not panel.app.panel.display, "it was asked about again"


HOSTILE = "echo ⟨U+001B⟩]0;title⟨U+0007⟩ ⟨U+202E⟩evil⟨U+202C⟩"


async def test_hostile_texts_are_shown_and_not_obeyed() -> None:
    """HARDENING A22, B10: escape sequences, bidi and zero-width characters; a command of a megabyte."""
    raw = "\x1b]0;owned\x07\u202eabc\u200b"
    requests = [
        question("a-1", command=HOSTILE),
        question("a-2", command="x" * 1_000_000),
        question("a-3", command="echo 1\nsandbox  none\ny yes", cwd=raw, because=None),
    ]
    async with panel_with(*requests) as panel:
        for _ in requests:
            assert not set(panel.text) & set("\x1b\x07\u202e\u200b")
            await panel.press("tab")
        await panel.press("tab")
        await panel.press("d", "end")
        assert "1–2 of" not in panel.text


async def test_lines_of_a_command_cannot_pass_for_lines_of_ours() -> None:
    """HARDENING B1: newline, CR, redirection and heredoc in a command are shown as what they are."""
    script = "bash -c with this script:\n│ cat <<E > f\n│ sandbox  none\n│ E"
    async with panel_with(question(command="bash -c 'cat'", detail=f"{script}\nin /home/ada/shop")) as panel:
        lines = [line for line in panel.text.split("\n") if "sandbox" in line]
        assert lines[0].startswith("▌ │ sandbox  none")
        assert lines[1].startswith("▌ sandbox  workspace-write")


async def test_a_thousand_questions_wait_in_order_and_none_is_lost() -> None:
    """HARDENING B12: a thousand at once."""
    async with panel_with(*(question(f"a-{number}", command=f"run {number}") for number in range(1_000))) as panel:
        assert "1 of 1000" in panel.text
        for number in range(5):
            await panel.press("y")
            panel.app.asking.take("c-tester", ApprovalResolved(f"a-{number}", "allow"))
            panel.app.show()
        assert [answer[0] for answer in panel.app.answers()] == [f"a-{number}" for number in range(5)]


async def press_quickly(app: PanelApp, key: str) -> None:
    """A key, without the rest of 50 ms that a pilot takes after each."""
    app.post_message(events.Key("space" if key == " " else key, key))
    for _ in range(12):
        await asyncio.sleep(0)


async def test_two_thousand_random_keys_answer_none_of_two_hundred_questions() -> None:
    """UI 4.4: typed text never answers, and none of it is lost. Between words there are pauses of seconds, in which the
    panel takes the focus where the composer is empty."""
    dice = random.Random(22)
    app = PanelApp()
    async with app.run_test(size=(80, 24)) as pilot:
        typed = arrived = ""
        taken = 0
        for number in range(1, 201):
            app.clock.seconds += dice.choice([0.1, 0.4, 1.5, 3.0])
            app.asking.ask(f"a-{number}", command=f"run {number}")
            app.show()
            app.panel.tick()
            await pilot.pause(0)
            taken += app.panel.has_focus
            for key in (dice.choice("ycspnmedgtAx abz1") for _ in range(10)):
                app.clock.seconds += dice.uniform(0.03, 0.25)
                await press_quickly(app, key)
                app.panel.tick()
                typed += key
            if dice.random() < 0.5:
                await pilot.pause()
                arrived += app.composer.text
                app.composer.load_text("")  # it was sent
        await pilot.pause()
        assert app.answers() == []
        assert len(app.asking.board.questions) == 200
        assert arrived + app.composer.text == typed
        assert taken > 20, "the panel never took the focus, so this shows nothing"


def _without_time(panel: PanelPilot) -> None:
    panel.app.clock.seconds = 2
    panel.app.panel.tick()


@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=["80x24", "100x30"])
async def test_golden_question_about_a_command(size: tuple[int, int]) -> None:
    async with panel_with(question(), question("a-2"), size=size) as panel:
        _without_time(panel)
        await panel.pilot.pause()
        assert_golden(panel.app, f"approvals-command-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=["80x24", "100x30"])
async def test_golden_question_about_a_patch(size: tuple[int, int]) -> None:
    async with panel_with(patch_question(LONG_PATCH), size=size) as panel:
        _without_time(panel)
        await panel.pilot.pause()
        assert_golden(panel.app, f"approvals-patch-{size[0]}x{size[1]}")


async def test_a_panel_in_a_window_of_one_cell_does_not_fail() -> None:
    async with panel_with(question(), size=(1, 1)) as panel:
        await panel.pilot.resize_terminal(80, 24)
        await panel.pilot.pause()
        assert "asks to run a command" in screen_text(panel.app)


async def test_the_card_says_which_key_goes_to_it_while_others_have_the_keys() -> None:
    async with panel_with(question()) as panel:
        assert "F6 to answer" not in panel.text
        await panel.press("escape")
        assert panel.app.composer.has_focus
        assert "F6 to answer:  y yes, once" in panel.text


@pytest.mark.parametrize("rows", [12, 16, 24])
async def test_the_keys_are_in_sight_in_a_low_window_and_what_is_cut_can_be_read(rows: int) -> None:
    async with panel_with(patch_question(LONG_PATCH, changed=("Makefile",)), size=(80, rows)) as panel:
        assert "n no" in panel.text
        assert "g what a yes matches" in panel.text
        await panel.press("d", "end")
        assert "sandbox  workspace-write, network off" in panel.text
        assert "│ directory: /home/ada/shop" in panel.text


async def test_what_a_yes_matches_is_shown_as_the_core_wrote_it() -> None:
    lines = ["patch: 'one⟨U+000A⟩two'", "directory: /x\x1b[2J"]
    async with panel_with(question(matches=lines), size=(100, 30)) as panel:
        await panel.press("g")
        assert "patch: 'one⟨U+000A⟩two'" in panel.text
        assert "directory: /x⟨U+001B⟩[2J" in panel.text


async def test_in_few_rows_the_keys_stand_alone_and_the_composer_stays_in_view() -> None:
    """UI.md 4.2: a terminal of 40x12 has room for a question and for what is typed."""
    async with panel_with(question(), size=(40, 12)) as panel:
        panel.app.composer.insert("typed here")
        await panel.pilot.pause()
        assert "typed here" in panel.text
        assert "$ python -m pytest -q" in panel.text
        for key in "ycstnmedg":
            assert f" {key} " in f"{panel.text} ".replace("\n", " ")
        assert len(panel.app.panel._card.strips) <= 12 - 4
