"""The messages a history starts with."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.conversation.user_message import environment_message, seeds, user_instructions_message
from tertulia.policy.approval_policy import NEVER, UNTRUSTED
from tertulia.policy.rights import TOP, meet
from tertulia.protocol.items import UserMessage
from tests.tables import each_row


def test_user_instructions_come_first_then_the_environment() -> None:
    """S000-13"""
    items = seeds("Answer in Spanish.", "/work", TOP)
    assert [message.text.partition(">")[0] for message in items] == ["<user_instructions", "<environment_context"]


@each_row("absent", [None, ""])
def test_without_user_instructions_there_is_only_the_environment(absent) -> None:
    """S000-13, S000-15"""
    (only,) = seeds(absent, "/work", TOP)
    assert only.text.startswith("<environment_context>")


def test_user_instructions_stand_in_their_standard_wrapper() -> None:
    """S000-13: user role, the text itself untouched."""
    message = user_instructions_message("Answer in Spanish.\n")
    assert message.text == "<user_instructions>\n\nAnswer in Spanish.\n\n\n</user_instructions>"
    assert isinstance(message, UserMessage)


def test_the_environment_tells_where_and_under_which_rules_a_conversation_works() -> None:
    """S000-13"""
    rights = replace(TOP, approval_policy=UNTRUSTED, sandbox="workspace_write", network=False, allow_git=False)
    assert environment_message("/work/naïve", rights).text == (
        "<environment_context>\n"
        "  <cwd>/work/naïve</cwd>\n"
        "  <approval_policy>untrusted</approval_policy>\n"
        "  <sandbox_mode>workspace-write</sandbox_mode>\n"
        "  <network_access>restricted</network_access>\n"
        "</environment_context>"
    )
    assert "<network_access>enabled<" in environment_message("/work", TOP).text
    assert "<git_access>`git add`" in environment_message("/work", replace(rights, allow_git=True)).text


def test_a_model_is_told_where_no_one_can_answer_unless_nothing_is_asked_anyway() -> None:
    rights = replace(TOP, approval_policy=UNTRUSTED)
    assert "<approvals>no person is at this run;" in environment_message("/work", rights, unattended=True).text
    assert "<approvals>" not in environment_message("/work", rights).text
    never = replace(TOP, approval_policy=NEVER)
    assert "<approvals>" not in environment_message("/work", never, unattended=True).text


def test_an_approval_policy_without_a_name_is_told_as_json() -> None:
    both = meet(replace(TOP, approval_policy=NEVER), replace(TOP, approval_policy=UNTRUSTED))
    text = '{"auto_run":"trusted","may_ask":false,"retry_outside_on_failure":false}'
    assert f"<approval_policy>{text}</approval_policy>" in environment_message("/", both).text


def test_what_we_inject_is_marked_as_ours() -> None:
    """Listings and counts leave it out; it starts with a tag."""
    for message in seeds("be brief", "/work", TOP):
        assert message.injected
        assert message.text.startswith("<")


def test_conversations_of_one_directory_share_one_text_but_no_id() -> None:
    """G1"""
    one, other = environment_message("/work", TOP), environment_message("/work", TOP)
    assert one.parts is other.parts
    assert one.id != other.id
