"""Pictures that a model names by their path for another conversation: read from the workspace, and not too many.

A user who names a picture may name any; a model may show only what its commands could read too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.protocol.ids import TaskId
from tertulia.protocol.inputs import ImageInput, InputItem, LocalImageInput
from tertulia.tools.picture import read_picture
from tertulia.tools.tool import CallContext
from tertulia.tools.workspace_file import read_inside

MAX_PICTURE_BYTES = 10 * 1024 * 1024
MAX_TASK_BYTES = 32 * 1024 * 1024
"""Of all pictures that the calls of one task name: a short answer can name the same large file a thousand times."""


class NamedPictures:
    """Reads them, and knows how much the running task has had read."""

    __slots__ = ("_hidden", "_read", "_task")

    def __init__(self, hidden: Callable[[], Sequence[str]]) -> None:
        """`hidden`: where nothing is read, asked for at each use."""
        self._hidden = hidden
        self._task: TaskId | None = None
        self._read = 0

    async def shown(self, items: Sequence[InputItem], call: CallContext) -> tuple[InputItem, ...]:
        """The same items, the pictures themselves in the place of their names; InvalidParams or Limit."""
        if call.task_id != self._task:
            self._task, self._read = call.task_id, 0
        return tuple([await self._shown(item, f"items[{index}].path", call) for index, item in enumerate(items)])

    async def _shown(self, item: InputItem, field: str, call: CallContext) -> InputItem:
        if not isinstance(item, LocalImageInput):
            return item
        data = await read_inside(call.cwd, item.path, MAX_PICTURE_BYTES, field, self._hidden())
        picture = read_picture(data)
        if picture is None:
            raise InvalidParamsError(f"{field} {item.path!r:.200} is not a PNG, JPEG, GIF or WebP picture")
        self._read += len(data)
        if self._read > MAX_TASK_BYTES:
            raise LimitError(f"the pictures of this task have more than {MAX_TASK_BYTES:,} bytes together; show fewer")
        return ImageInput(f"data:{picture.mime};base64,{base64.b64encode(data).decode()}")
