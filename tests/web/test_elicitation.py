"""A form of an MCP server in the page: filled in and sent; and what the page shows of the server (S004-26)."""

from __future__ import annotations

import pytest

from tertulia.testing import ScriptedModel, call
from tests.contract.serving_tools import table
from tests.web.browser import Browser
from tests.web.stage import staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


async def test_a_form_of_a_server_is_filled_in_and_the_server_is_shown(browser: Browser) -> None:
    model = ScriptedModel([call("a__ask", {}), "Thank you."])
    servers = {"a": table(approval="approve")}
    async with staged(browser, model, mcp_servers=servers, approval_policy="on-request") as stage, stage.page() as page:
        await stage.start_session(page)
        await page.fill("#composer", "Go")
        await page.press("Enter")
        await page.sees(".card >> text=the MCP server a asks you")
        await page.click(".card .field input")
        await page.click(".card .yes-button")
        await page.sees("text=Thank you.")
        await page.sees(".question.yes >> text=answered")
        await page.click("#choose-mcp")
        await page.sees(".server >> text=ready")
