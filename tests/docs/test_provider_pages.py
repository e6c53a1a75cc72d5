"""Issue 24, docs: one page a provider, with what works, what is refused, and proof that exists."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache

from tertulia.models.catalog import ModelProvider
from tests.docs.pages import ROOT, text
from tests.tables import each_row

PAGES = sorted((ROOT / "docs" / "models").glob("*.md"))
SECTIONS = ["What works", "What is refused, or does not work", "Recorded proof"]
_PROOF = re.compile(
    r"^\| (?:`(?P<stream>[^`]+)`|no stream) \| `(?P<file>[^`]+)`(?:: `(?P<test>\w+)`)? \|$", re.MULTILINE
)
_TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def names_of_tests(file: str) -> frozenset[str]:
    """The names of the tests that a file has."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def streams_of(page: str) -> list[str]:
    return [found["stream"] for found in _PROOF.finditer(page) if found["stream"]]


@each_row("name", [page.name for page in PAGES])
def test_the_proof_that_a_page_names_exists(name: str) -> None:
    page = text(f"models/{name}")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == SECTIONS
    proofs = list(_PROOF.finditer(page))
    table = page.split("## Recorded proof")[1].split("|---|---|\n")[1].split("\n\n")[0]
    assert len(proofs) == len(table.splitlines()), "each row names a test"
    assert streams_of(page)
    for found in proofs:
        assert found["stream"] is None or (ROOT / found["stream"]).is_file(), found["stream"]
        assert (ROOT / found["file"]).is_file(), found["file"]
        assert found["test"] is None or found["test"] in names_of_tests(found["file"]), found["test"]


def test_every_recorded_stream_has_its_page_and_every_page_its_link() -> None:
    recorded = {path.name for path in (ROOT / "tests" / "models" / "streams").iterdir()}
    named = {stream.rsplit("/", 1)[1] for page in PAGES for stream in streams_of(text(f"models/{page.name}"))}
    assert named == {name for name in recorded if not name.startswith(("chat_", "messages_", "responses_"))}
    assert set(re.findall(r"\(models/(\w+\.md)\)", text("models.md"))) == {page.name for page in PAGES}
    providers = ("openai", "azure", "openrouter", "gemini", "mistral", "deepseek", "vllm", "llamacpp", "ollama")
    assert {page.stem for page in PAGES} == {*providers, "lmstudio", "litellm", "anthropic"}


@each_row("name", [page.name for page in PAGES])
def test_the_settings_of_a_page_are_settings(name: str) -> None:
    for table in _TOML.findall(text(f"models/{name}")):
        for provider in tomllib.loads(table)["model_providers"].values():
            assert provider.keys() <= set(ModelProvider.__struct_fields__)
            assert provider["wire"] in ("chat", "responses", "messages")
