"""The peers, in the order of the tables, and how the program of each is found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "peers"
LEAST = "raw_aiohttp"
"""The peer that every other one is set against."""


@dataclass(frozen=True)
class PeerSpec:
    """A peer: where its program is, what it is called, and what W4 imports of it."""

    name: str
    title: str
    package: str
    """The distribution, or the package of npm, whose version is shown."""
    imports: str
    """What a program that uses it has to import."""
    folder: str = ""
    variant: str = ""
    npm: bool = False
    """Whether it comes from npm and is driven by a program without any library."""
    checkout: bool = False
    """Whether it is the source tree that this file belongs to."""

    @property
    def path(self) -> Path:
        """The folder with the program and its locked requirements."""
        return FOLDER / (self.folder or self.name)

    @property
    def python(self) -> str:
        """The version of Python that it needs, where it is not that of the referee."""
        file = self.path / "python-version"
        return file.read_text().strip() if file.exists() else ""


# With what `import tertulia` leaves for the first session and its first turn.
_OWN_IMPORTS = (
    "from tertulia import Session, Settings, tool; import tertulia.session.assembly, "
    "tertulia.rollout.sqlite.sqlite_store, tertulia.models.http.chat, tertulia.models.http.connection"
)

PEERS: tuple[PeerSpec, ...] = (
    PeerSpec(LEAST, "bare aiohttp", "aiohttp", "import aiohttp"),
    PeerSpec(
        "tertulia_no_record",
        "Tertulia, no record",
        "tertulia",
        _OWN_IMPORTS,
        folder="tertulia",
        variant="no-record",
        checkout=True,
    ),
    PeerSpec("tertulia", "Tertulia", "tertulia", _OWN_IMPORTS, checkout=True),
    PeerSpec(
        "tertulia_full",
        "Tertulia, durability full",
        "tertulia",
        _OWN_IMPORTS,
        folder="tertulia",
        variant="full",
        checkout=True,
    ),
    PeerSpec(
        "openai_agents",
        "OpenAI Agents SDK",
        "openai-agents",
        "from agents import Agent, OpenAIChatCompletionsModel, Runner",
    ),
    PeerSpec(
        "pydantic_ai",
        "Pydantic AI",
        "pydantic-ai-slim",
        "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
    ),
    PeerSpec(
        "langgraph",
        "LangGraph",
        "langgraph",
        "from langgraph.graph import MessagesState, StateGraph; from langchain_openai import ChatOpenAI",
    ),
    PeerSpec(
        "agno",
        "Agno",
        "agno",
        "from agno.agent import Agent; from agno.models.openai import OpenAIChat",
    ),
    PeerSpec(
        "autogen",
        "AutoGen",
        "autogen-agentchat",
        "import autogen_agentchat.agents, autogen_ext.models.openai",
    ),
    PeerSpec(
        "google_adk",
        "Google ADK",
        "google-adk",
        "import google.adk.agents, google.adk.models, google.adk.runners, google.adk.sessions",
    ),
    PeerSpec(
        "strands",
        "Strands Agents",
        "strands-agents",
        "from strands import Agent; from strands.models.openai import OpenAIModel",
    ),
    PeerSpec(
        "openhands",
        "OpenHands SDK",
        "openhands-sdk",
        "from openhands.sdk import LLM, Agent, Conversation",
    ),
    PeerSpec("codex", "Codex app-server", "@openai/codex", "", npm=True),
)
