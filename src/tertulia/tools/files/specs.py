"""What models are told of the tools for files. Here, and not with the tools: those are loaded when they are called."""

from __future__ import annotations

from tertulia.protocol.tool_spec import TEXT_EDITOR, ToolSpec
from tertulia.tools.tool import define_tool

DEFAULT_LINES = 2_000
"""How many lines `view` shows if it is asked for no other number."""
DEFAULT_LIMIT = 200
MAX_LIMIT = 2_000
"""Of lines or files that a search finds."""
MAX_CONTEXT = 20

_PATH = {"type": "string", "description": "Its path, absolute or from the working directory."}
_OLD = {"type": "string", "description": "A text of the file, exactly as it is there, white space included."}
_NEW = {"type": "string", "description": "What takes its place."}

_GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

APPLY_PATCH = ToolSpec.define(
    "apply_patch",
    "Use the `apply_patch` tool to edit files. A patch stands between `*** Begin Patch` and `*** End Patch` and holds, "
    "for each file, `*** Add File: PATH` with lines that begin with `+`, or `*** Delete File: PATH`, or `*** Update "
    "File: PATH` (then perhaps `*** Move to: PATH`) with places that begin with `@@` or `@@ a line before`, whose "
    "lines begin with a blank (stays), `-` (goes) or `+` (comes). Give three lines around each change. Paths are "
    "relative. The whole patch is applied, or nothing of it. This is free text: do not wrap it in JSON.",
    kind="custom",
    grammar=_GRAMMAR,
)

LINES_OF_A_FILE = {
    "path": {"type": "string", "description": "Its path, absolute or from the working directory."},
    "line": {"type": "integer", "minimum": 1, "description": "The first line that you want; 1 unless you say so."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "description": f"How many lines at most; {DEFAULT_LINES:,} unless you say so.",
    },
}
"""The arguments of a tool that shows lines of a file."""

VIEW = define_tool(
    "view",
    "Shows a text file with its line numbers, or what a directory has, two levels deep. View files before you edit.",
    LINES_OF_A_FILE,
    ["path"],
)

EDIT = define_tool(
    "edit",
    "Changes a file by exact replacement. Each old text must be in the file exactly once: give enough lines around a "
    "change. Several edits of a file are made one after another, all of them or none.",
    {
        "path": _PATH,
        "edits": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"old": _OLD, "new": _NEW},
                "required": ["old", "new"],
                "additionalProperties": False,
            },
        },
    },
    ["path", "edits"],
)

WRITE = define_tool(
    "write",
    "Writes a whole file: a new one, or one whose content is replaced. To change a part of a file use `edit`.",
    {"path": _PATH, "content": {"type": "string", "description": "All of the file."}},
    ["path", "content"],
)

_TEXT = {"type": ["string", "null"]}
PROVIDER_EDITOR = ToolSpec.define(
    TEXT_EDITOR,
    "Views a text file or a directory, makes a file, replaces a text that is in a file once, or inserts lines after a "
    "line of it.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            "path": {"type": "string"},
            "view_range": {"type": "array", "items": {"type": "integer"}},
            "file_text": {"type": "string"},
            "old_str": {"type": "string"},
            "new_str": {"type": "string"},
            "insert_line": {"type": "integer", "minimum": 0},
            "insert_text": {"type": "string"},
        },
        "required": ["command", "path"],
    },
    accepts={
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "path": {"type": "string"},
            "view_range": {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
            **dict.fromkeys(("file_text", "old_str", "new_str", "insert_text"), _TEXT),
            "insert_line": {"type": ["integer", "null"], "minimum": 0},
        },
        "required": ["command", "path"],
    },
    provider_type="text_editor_20250728",
)

GREP = define_tool(
    "grep",
    "Finds the lines of files that match a regular expression. Ignore files such as .gitignore are honoured, binary "
    "files skipped.",
    {
        "pattern": {"type": "string", "minLength": 1, "description": "A regular expression, for one line at a time."},
        "path": {"type": "string", "description": "A directory or file; the working directory if left out."},
        "glob": {"type": "string", "description": "Only files whose path fits, such as *.py or src/**/*.{js,ts}."},
        "ignore_case": {"type": "boolean"},
        "output": {
            "type": "string",
            "enum": ["lines", "files", "count"],
            "description": "lines (default), only the paths of files, or how many lines of each.",
        },
        "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "Lines around each."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_LIMIT,
            "description": f"How many lines or files at most; {DEFAULT_LIMIT} unless you say so.",
        },
    },
    ["pattern"],
)

GLOB = define_tool(
    "glob",
    "Finds files whose path fits a pattern, such as *.py (at any depth) or src/**/test_*.{js,ts}. Ignore files such as "
    ".gitignore are honoured.",
    {
        "pattern": {"type": "string", "minLength": 1, "description": "Of the path below the directory."},
        "path": {"type": "string", "description": "The directory; the working directory if left out."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_LIMIT,
            "description": f"How many files at most; {DEFAULT_LIMIT} unless you say so.",
        },
    },
    ["pattern"],
)

FILE_SPECS = (VIEW, EDIT, PROVIDER_EDITOR, WRITE, GREP, GLOB)
"""All of them; `members` makes the tools."""
