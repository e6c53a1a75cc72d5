"""`view_image`: the model looks at a picture of the workspace, read with no more rights than its commands have."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.items import ImagePart
from tertulia.tools.command_environment import PlacedTool
from tertulia.tools.images import read_image_info
from tertulia.tools.shell.command_approval import TOLERATED_ARGUMENTS, read_escalation
from tertulia.tools.tool import CallContext, Outcome, Result, define_tool

MAX_PICTURE_BYTES = 10 * 1024 * 1024

_SPEC = define_tool(
    "view_image",
    "Shows you a picture (PNG, JPEG, GIF or WebP) that lies in the working directory. Use it only for a file that you "
    "need to see.",
    {"path": {"type": "string", "description": "Its path, absolute or from the working directory."}},
    ["path"],
    # A picture is sent as it is, whatever detail is asked for.
    {"detail": {"type": ["string", "null"]}, "environment_id": TOLERATED_ARGUMENTS["environment_id"]},
)


class ViewImage(PlacedTool):
    """Reads through the sandbox: masked files are not found, and no link is followed."""

    spec = _SPEC

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a path outside of the working directory and the writable roots."""
        read_escalation(arguments)
        self._place.locate(arguments["path"], call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Read the file, check that it is a picture, and return it."""
        root, relative = self._place.locate(arguments["path"], call)
        data = await self._read(root, relative, call)
        picture = read_image_info(data)
        if picture is None:
            raise InvalidParamsError(f"{relative} is not a PNG, JPEG, GIF or WebP picture")
        url = f"data:{picture.mime};base64,{base64.b64encode(data).decode()}"
        size = f"{picture.width} x {picture.height} pixels, {len(data):,} bytes, {len(url):,} as sent"
        return Result(f"{relative}: {picture.mime}, {size}", parts=(ImagePart(url),))

    async def _read(self, root: str, relative: str, call: CallContext) -> bytes:
        there = msgspec.structs.replace(call, cwd=root)
        request = {"verb": "read", "paths": [relative]}
        answer = await self._place.on_disk(request, there, f"{relative} could not be read")
        if not answer["ok"]:
            raise InvalidParamsError(f"{relative} cannot be read: {answer['reason']}")
        content = answer["files"][relative]
        if content is None:
            raise NotFoundError(f"there is no file {relative}")
        data = base64.b64decode(content)
        if len(data) > MAX_PICTURE_BYTES:
            raise InvalidParamsError(f"{relative} has {len(data):,} bytes; at most {MAX_PICTURE_BYTES:,} can be shown")
        return data
