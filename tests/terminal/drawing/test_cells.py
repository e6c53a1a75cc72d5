"""Cells as rows: every kind at every width, what each looks like, and that nothing in them is obeyed."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len
from rich.style import Style

from tertulia.protocol.message_events import Attachment
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, Decider
from tertulia.terminal.drawing.cells import CellDrawer
from tertulia.terminal.drawing.palette import ASCII, Palette
from tertulia.view import cells as c
from tests.terminal.transcript.boards import APPROVAL, ROOT, Script, shop
from tests.view.golden import CASES, events_of, fold, read_case

PALETTE = Palette(Style.null())
HOSTILE = "a\x1b[2J\x1b]0;title\x07\u202eb\u200bc\r\x00\x9b31m"


def drawn(cell: c.Cell, width: int = 60, *, unfolded: bool = False, palette: Palette = PALETTE) -> str:
    rows = CellDrawer(width, palette).draw(cell, unfolded=unfolded)
    return "\n".join(row.text.rstrip() for row in rows)


def cells_of(script: Script) -> list[c.Cell]:
    return script.board().conversations[ROOT].cells


@pytest.mark.parametrize("width", [4, 40, 80])
@pytest.mark.parametrize("unfolded", [False, True])
def test_every_cell_of_every_case_fits(width: int, unfolded: bool) -> None:
    boards = [fold(events_of(read_case(path))) for path in CASES]
    for view in (view for board in [*boards, shop().board()] for view in board.conversations.values()):
        for cell in view.cells:
            for row in CellDrawer(width, PALETTE).draw(cell, unfolded=unfolded):
                assert width < 40 or cell_len(row.text.rstrip()) <= width, (cell, row.text)


def test_a_session_with_every_kind_of_cell() -> None:
    shown = "\n".join(drawn(cell, 70) for cell in cells_of(shop()) if not isinstance(cell, c.AssistantCell))
    assert (
        shown
        == """\
 ▌ The basket's total is wrong when somebody buys two of a thing. Find
 ▌ out why, fix it, and have it reviewed.
   ∴ Looking first
     The total ignores counts, maybe.
     Read.
     ╰ 2 more lines
   ▤ plan
     ✓ Read app.py
     › Have the tests run
     · Report
   ● $ sed -n 1,20p app.py  0.8 s
     │ def total(items):
     │     sum = 0
     │     for item in items:
     ╰ 2 more lines
   ✗ $ pytest -q  0.8 s, exit code 1
     ╭ 16 more lines above
     │ line 16
     │ line 17
     │ line 18
     │ line 19
     │ E  assert 250 == 500
     │ app.py:4: AssertionError
   ⇠ asks a new conversation “tester”  0.8 s
     │ One test fails.
   ● changes app.py +1 −4, tests/test_total.py +5 new  0.8 s
     ── app.py +1 −4
     @@ def total(items):
     -     sum = 0
     -     for item in items:
     -         sum = sum + item.price
     -     return sum
     +     return sum(item.price * item.count for item in items)
     ── tests/test_total.py +5 new
     + from app import total
     +
     +
     + def test_two_of_a_kind():
     +     assert total([Item(250, 2)]) == 500
   ? apply a patch to 2 files in /home/ada/shop
     ✗ denied by ada: not on a Friday
   ● docs: search basket  0.8 s
     │ nothing was found
   ● looks at the list of conversations  0.8 s
     │ root: running
     │ tester: idle
   ! the model is not in the list of models (unknown_model)
   ✗ the provider did not answer (model_error)
   ✓ done, 10,500 tokens"""
    )


def test_an_output_is_folded_and_unfolded() -> None:
    call = next(cell for cell in cells_of(shop()) if isinstance(cell, c.CommandCell) and cell.exit_code)
    assert "line 3" not in drawn(call)
    assert "│ line 3\n" in drawn(call, unfolded=True)
    assert "above" not in drawn(call, unfolded=True)


def test_a_command_that_runs_shows_the_end_of_its_output() -> None:
    call = c.CommandCell(key="k", ts="", call_id="c", name="shell", command=["make", "it so"], cwd="/")
    call.grow("\n".join(f"step {number}" for number in range(40)), 0)
    assert drawn(call) == "\n".join(
        ["   ◌ $ make 'it so'  runs", "     ╭ 34 more lines above", *(f"     │ step {n}" for n in range(34, 40))]
    )


def test_a_folded_output_of_megabytes_costs_no_more_than_a_short_one() -> None:
    call = c.CommandCell(key="k", ts="", call_id="c", name="shell", command=["yes"], cwd="/", done=True, exit_code=0)
    call.settle("y\n" * 2_000_000)
    assert drawn(call).endswith("╰ 1,999,997 more lines")


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (Decider("client", "ada"), "denied by ada: no"),
        (Decider("policy", "never"), "denied by the policy never: no"),
        (Decider("clock"), "denied by the clock: there was no answer in time: no"),
        (None, "denied by a client: no"),
    ],
)
def test_a_denial_names_who_decided(by: Decider | None, text: str) -> None:
    request = ApprovalRequest(**APPROVAL)
    answer = ApprovalResolved("a1", "deny", reason="no", by=by)
    assert f"✗ {text}" in drawn(c.ApprovalCell(key="a1", ts="", request=request, answer=answer))


def test_what_models_and_programs_write_is_shown_and_not_obeyed() -> None:
    cells: list[c.Cell] = [
        c.UserCell(key="u", ts="", item_id="i", text=HOSTILE),
        c.AssistantCell(key="a", ts="", item_id="i", pieces=[HOSTILE], done=True),
        c.AssistantCell(key="a", ts="", item_id="i", pieces=[HOSTILE]),
        c.ReasoningCell(key="r", ts="", item_id="i", pieces=[HOSTILE], done=True),
        c.CommandCell(key="c", ts="", call_id="c", name="s", command=[HOSTILE], cwd="/", pieces=[HOSTILE], done=True),
        c.ToolCallCell(key="t", ts="", call_id="c", name=HOSTILE, arguments={"a": HOSTILE}, pieces=[HOSTILE]),
        c.ToolCallCell(key="m", ts="", call_id="c", name="x", server=HOSTILE, message=HOSTILE),
        c.HandoffCell(key="h", ts="", call_id="c", name="conv_create", title=HOSTILE, pieces=[HOSTILE]),
        c.PatchCell(key="p", ts="", call_id="c", name="p", changes=[{"path": HOSTILE, "kind": "add"}]),
        c.NoticeCell(key="n", ts="", level="error", text=HOSTILE),
    ]
    for cell in cells:
        for unfolded in (False, True):
            shown = drawn(cell, unfolded=unfolded)
            assert not {character for character in shown if ord(character) < 32 and character != "\n"}
            assert not {"\x7f", "\x9b", "\u202e", "\u200b"} & set(shown)
            assert "⟨U+001B⟩" in shown


def test_marks_of_ascii_draw_no_boxes() -> None:
    palette = Palette(Style.null(), ASCII)
    for cell in cells_of(shop()):
        shown = drawn(cell, palette=palette).replace("“", '"').replace("”", '"')
        assert shown.isascii(), shown


def test_every_state_has_a_sign_and_not_a_colour_alone() -> None:
    ran, failed = (cell for cell in cells_of(shop()) if isinstance(cell, c.CommandCell))
    assert drawn(ran).lstrip()[0] != drawn(failed).lstrip()[0]
    assert "exit code 1" in drawn(failed)


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, " ▌ hello"),
        ({"how": "steer"}, " ▌ while it worked\n ▌ hello"),
        ({"sender": "ada"}, " ▌ ada\n ▌ hello"),
        ({"how": "delegated", "caller_id": "root"}, " ▌ asked by “root”\n ▌ hello"),
        (
            {"attachments": (Attachment(media_type="image/png", bytes=210_000), Attachment(url="https://a.b/c"))},
            " ▌ hello\n ▌ [picture image/png, 210 KB]\n ▌ [picture at https://a.b/c]",
        ),
    ],
)
def test_a_message_says_who_wrote_it_and_what_came_with_it(fields: dict, rows: str) -> None:
    assert drawn(c.UserCell(key="u", ts="", item_id="i", text="hello", **fields)) == rows


def test_a_question_and_its_denial_say_why_it_was_not_simply_run() -> None:
    because = {"rule": "the policy is untrusted", "set_by": "session"}
    request = msgspec.convert({**APPROVAL, "because": because}, ApprovalRequest)
    reason = "because the policy is untrusted, set by the session"
    assert reason in drawn(c.ApprovalCell(key="a1", ts="", request=request))
    denied = c.ApprovalCell(key="a1", ts="", request=request, answer=ApprovalResolved("a1", "deny"))
    assert drawn(denied).endswith(f"     {reason}\n     ✗ denied by a client")
    allowed = c.ApprovalCell(key="a1", ts="", request=request, answer=ApprovalResolved("a1", "allow"))
    assert reason not in drawn(allowed)


def test_a_call_that_a_grant_lets_run_says_so() -> None:
    call = c.CommandCell(key="k", ts="", call_id="c", name="shell", command=["ls"], cwd="/", done=True, duration_ms=9)
    call.allowed_by = Decider("grant", grant_id="g1")
    assert drawn(call) == "   ● $ ls  0.0 s, allowed by a grant given before"


def test_in_a_weave_an_answer_stands_with_the_conversation_that_gave_it() -> None:
    call = next(cell for cell in cells_of(shop()) if isinstance(cell, c.HandoffCell))
    drawer = CellDrawer(60, PALETTE)
    assert [row.text for row in drawer.draw(call, woven=True)] == ["   ⇠ asks a new conversation “tester”  0.8 s"]
    assert "One test fails." in drawer.draw(call, woven=True, unfolded=True)[-1].text
    call.success = False
    assert "One test fails." in drawer.draw(call, woven=True)[-1].text
