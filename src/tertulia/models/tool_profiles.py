"""Which tools for files a model was trained on, by its name.

OpenAI's models know patches and commands as lists of words. Others edit better by exact replacement and with a command
line. A model that is not listed gets the first: it is what every model got before there were profiles.
"""

from __future__ import annotations

from functools import lru_cache

from tertulia.protocol.conversation_fields import ToolProfile

EDITOR_FAMILIES = (
    "claude", "codestral", "deepseek", "devstral", "gemini", "glm", "grok", "kimi", "llama", "magistral", "minimax",
    "ministral", "mistral", "mixtral", "qwen", "qwq",
)  # fmt: skip
"""The beginnings of names of models that have the profile `editor`."""

PROVIDER_TOOLS = ("claude-haiku-4", "claude-opus-4", "claude-sonnet-4")
"""The beginnings of names of models for which the Messages API defines a command line and a text editor itself."""

BASH_TYPE = "bash_20250124"
TEXT_EDITOR_TYPE = "text_editor_20250728"

_MESSAGES = "messages/"
_SCRIPTED = "scripted/"


@lru_cache(maxsize=1024)
def usual_profile(model: str, family: str) -> ToolProfile:
    """The profile of a model where none is asked for; `model` is `provider/model`.

    The name of a script says nothing: of a scripted model its family alone counts.
    """
    names = (family,) if model.startswith(_SCRIPTED) else (_plain_name(model), family)
    return "editor" if any(name.lower().startswith(EDITOR_FAMILIES) for name in names) else "patch"


@lru_cache(maxsize=1024)
def has_provider_tools(model: str, dialect: str) -> bool:
    """Whether the API, in this dialect, defines tools of the profile `editor` itself for this model."""
    return dialect.startswith(_MESSAGES) and _plain_name(model).startswith(PROVIDER_TOOLS)


def _plain_name(model: str) -> str:
    """Without the provider, and without the maker, which some providers put first."""
    return model.rsplit("/", 1)[-1].lower()
