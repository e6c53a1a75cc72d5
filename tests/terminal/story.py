"""What a stranger is asked to resolve (issue 22, "Done when"): the replies of the model, as a script has them."""

from __future__ import annotations

from typing import Any

PATCH_LINES = 400
CODE = "def total(items):\n    return sum(item.price * item.count for item in items)"


def replies() -> list[Any]:
    """Root asks a reviewer, which asks a patcher, which has a patch of 20 KB; then a command."""
    body = "".join(
        f"+line {number} of the new module does its own thing, and no other\n" for number in range(PATCH_LINES)
    )
    patch = f"*** Begin Patch\n*** Add File: big.py\n{body}*** End Patch\n"
    assert len(patch) >= 19_000
    return [
        _call("conv_create", {"user_instruction": "Have the module written", "title": "reviewer"}),
        _call("conv_create", {"user_instruction": "Write the module", "title": "patcher"}),
        _call("apply_patch", {"input": patch}),
        "I was asked to make it smaller.",
        _call("shell", {"command": ["rm", "-rf", "build"]}),
        "The reviewer is done.",
        f"Here it is:\n\n```python\n{CODE}\n```\n\nThat is all.",
    ]


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"text": "", "tool_calls": [{"name": name, "arguments": arguments}]}
