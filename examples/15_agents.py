"""Agents that are set up by name: a model delegates to one, and both are told what AGENTS.md of the project says."""

import asyncio
import tempfile
from pathlib import Path

import tertulia
from tertulia.testing import ScriptedModel, call


async def main() -> None:
    model = ScriptedModel(
        [
            call("conv_create", {"agent": "reviewer", "user_instruction": "Review app.py."}),
            "The function `add` has no test.",
            "The reviewer misses a test.",
        ]
    )
    reviewer = {
        "description": "Reviews Python code; give it a file name.",
        "instructions": "You review Python code. Be brief.",
        "sandbox": "read-only",
        "include_apply_patch_tool": False,
    }
    with tempfile.TemporaryDirectory() as project:
        (Path(project) / "AGENTS.md").write_text("Every function has a test.")
        settings = tertulia.Settings(model=model, cwd=project, agents={"reviewer": reviewer}, project_instructions=True)
        async with tertulia.Session.start(settings) as session:
            reply = await session.root.message("Is app.py fine?")
            root, child = session.conversations()
            print(f"{child.info.title}: {(await child.context()).policy['sandbox']}")
            print(reply.text)

            own, delegated = model.requests[0], model.requests[1]
            assert delegated.instructions == "You review Python code. Be brief."
            assert "apply_patch" in own.tools
            assert "apply_patch" not in delegated.tools
            for request in (own, delegated):
                _, context, _ = request.items
                assert isinstance(context, tertulia.UserMessage)
                assert "Every function has a test." in context.text
            assert (await child.context()).policy["sandbox"] == "read-only"
            assert (await root.context()).policy["sandbox"] == "workspace-write"
    assert reply.text == "The reviewer misses a test."


if __name__ == "__main__":
    asyncio.run(main())
