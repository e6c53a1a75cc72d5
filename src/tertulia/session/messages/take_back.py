"""Takes a message back that waits for its conversation or for a slot."""

from __future__ import annotations

from tertulia.conversation.state import ConversationState
from tertulia.errors import NotFoundError
from tertulia.protocol.ids import TaskId
from tertulia.protocol.inputs import ImageInput
from tertulia.protocol.items import ImagePart
from tertulia.protocol.message_events import MessageTakenBack
from tertulia.scheduler.plan import Chain
from tertulia.session.answers import Answer
from tertulia.session.parts import SessionParts


class TakeBackAnswer(Answer, frozen=True):
    """`conversation/take_back`: the message as it was sent, so that it can be changed and sent again."""

    task_id: TaskId
    text: str
    attachments: list[ImageInput]
    """Its pictures, in the form of items of a message."""


async def take_back(parts: SessionParts, conversation: ConversationState, task_id: str | None) -> TakeBackAnswer:
    """Withdraw the newest message that waits, or that of a task, once; NotFound where it does not wait."""
    waiting = [chain for chain in parts.scheduler.queued() if _is_meant(chain, conversation, task_id)]
    if not waiting:
        why = "it has begun or was taken back, or there was none; interrupt the conversation to stop what has begun"
        whose = "message" if task_id is None else f"message of task {task_id:.64}"
        raise NotFoundError(f"no {whose} waits in this conversation: {why}")
    # From the look to the act nothing waits: it cannot begin in between, nor be given to two.
    chain = waiting[-1]
    message = chain.root.plan.input[-1]
    parts.bus.publish(MessageTakenBack(message.id), chain.scope)
    parts.scheduler.stop(chain)
    pictures = [ImageInput(part.image_url) for part in message.parts if isinstance(part, ImagePart)]
    await parts.bus.flush()
    return TakeBackAnswer(chain.task_id, message.text, pictures)


def _is_meant(chain: Chain, conversation: ConversationState, task_id: str | None) -> bool:
    own = chain.conversation_id == conversation.id and bool(chain.root.plan.input)
    return own and task_id in (None, chain.task_id)
