"""Makes the tools for files, by their names."""

from __future__ import annotations

from tertulia.protocol.tool_spec import TEXT_EDITOR
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.editor import EditorView
from tertulia.tools.files.edit import Edit, Write
from tertulia.tools.files.glob import Glob
from tertulia.tools.files.grep import Grep
from tertulia.tools.files.provider_editor import ProviderEditor
from tertulia.tools.files.view import FileView, View
from tertulia.tools.patch.engine import PatchEngine
from tertulia.tools.tool import Tool


def make_file_tool(name: str, place: CommandEnvironment, engine: PatchEngine, editor: EditorView | None) -> Tool:
    """The tool of that name, one of `FILE_SPECS`."""
    view = FileView(place, engine.read_files, editor)
    match name:
        case "view":
            return View(view)
        case "edit":
            return Edit(engine)
        case "write":
            return Write(engine)
        case "grep":
            return Grep(place)
        case "glob":
            return Glob(place)
        case _:
            assert name == TEXT_EDITOR, name
            return ProviderEditor(view, engine)
