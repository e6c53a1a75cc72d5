"""The shape of the source tree, held by a machine.

Import-linter holds the layers and ruff the style, both from pyproject.toml; here stands what neither can say:
sizes, names, docstrings, a folder of tests for every folder, no import cycles, who is exempt from what. A
failure names the file, the number and the way out. Where a limit is reached, a noun wants to leave the file: find it.
The limits stay.
"""

from __future__ import annotations

import ast
import gc
import graphlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tertulia"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_CLASS_METHODS = 20

DRAWERS = {"base", "common", "core", "helper", "helpers", "misc", "shared", "util", "utils"}

MAX_FILES_IN_A_FOLDER = 20
MAX_SIBLINGS_WITH_A_PREFIX = 3

# Words of an older vocabulary. CONTRIBUTING.md has the words that are used now.
OLD_WORDS = {
    *("agency", "audience", "basement", "bond", "brokerage", "broom", "confidence", "deed", "desk", "door", "doors"),
    *("errand", "floor", "foreman", "guest", "guests", "house", "houses", "moment", "newsroom", "notary", "offer"),
    *("parting", "promises", "recollection", "shelf", "tab", "talk", "talks", "trouble", "turnstile", "twin", "vigil"),
    *("wish", "workplace", "workshop"),
}
SENTENCE_WORDS = {"moment", "offer", "promises"}
"""Old words that the name of a test may have: it is a sentence, and there they are plain English."""
NO_NAMES = {
    *("Asked", "Asking", "Begun", "Cleared", "Done", "Ended", "Failed", "Finished", "Found", "Given", "Heard", "Kept"),
    *("Known", "Learned", "Listed", "Loaded", "Noted", "Opened", "Reached", "Said", "Seen", "Settled", "Told"),
    *("Unstarted", "Wanted", "Written"),
}
"""Participles say what happened to a thing, not what it is."""
NO_VARIABLES = {"asked", "each", "given", "kept", "said", "told"}
PARSED_WHEN = re.compile(rf"\b({'|'.join(sorted(NO_VARIABLES))})(?: in\b|\s*(?:[:,)]|=(?!=)))")
"""Where a file may have such a variable. To parse all 900 of them takes seconds."""
NAMED_CLASS = re.compile(r"`([A-Z][a-z]{2,}(?:[A-Z]\w*)?)`")
"""The name of a class in the prose of a file."""
CODE_WORD = re.compile(r"\b[A-Z]\w+")
NO_ACTORS = re.compile(r"\b(anybody|anyone|everybody|everyone|nobody|somebody|someone|whoever|whom|whomever)\b", re.I)
"""Name the client, the caller, the model or the process instead."""
OLD_TURNS = re.compile(r"\b(betray|buried|buries|bury|heed|heeded|heeds|herein|ought|shall|thereof|wherein)\b", re.I)
"""Say it as an engineer of today writes: processes are reaped, variables have an effect."""
MIN_DOCSTRING_WORDS = 5
DEFINED = re.compile(r"^ *(?:async def|class|def) (\w+)", re.MULTILINE)
"""The names of functions and classes. Of 700 files of tests it is quicker than to parse them."""

BY_THE_CLOCK = re.compile(r"\bassert\b.*\b(monotonic|perf_counter|time)\(\) - [\w.]+ <")
"""That something took less than so long."""

# The families of a stage, from top to bottom: one may import those in the rows below its own, and no other.
FAMILIES = {
    "cli": (("inspect", "plain", "sessions"), ("serve",), ("completion", "exec", "mcp", "models"), ("output",)),
    "executors": (("acp", "prompt"), ("command",)),
    "mcp": (("pool", "serve"), ("client",), ("config",)),
    "models": (("local", "scripted"), ("http",)),
    "policy": (("approvals",), ("commands",)),
    "rollout": (("sweep",), ("format", "sqlite")),
    "sandbox": (("launcher",), ("mounts",), ("limits", "masks")),
    "terminal": (("approvals", "composer", "sessions"), ("panels",), ("transcript",), ("drawing",)),
    "server": (("mcp",), ("acp", "codex", "http"), ("jsonrpc",)),
    "session": (("agents", "approvals", "resume"), ("mcp",), ("settings",)),
    "tools": (("shell",), ("patch",)),
}

# Ruff frees a whole file from TID251. Here stands which of the banned names that was for.
FREED_FOR = {
    "src/tertulia/events/clock.py": ("datetime.", "time."),
    "src/tertulia/scheduler/nursery.py": ("asyncio.create_task", "asyncio.ensure_future"),
    "src/tertulia/session/settings/settings.py": ("os.",),
    "bench/**": ("datetime.", "os.", "time."),
    "clients/**": ("asyncio.create_task",),
    "examples/**": ("datetime.", "os.", "time."),
    "tests/**": ("aiohttp.web", "asyncio.", "datetime.", "os.", "time."),
}
MAX_BROAD_CATCHERS = 5
NOQA_OF_A_HELD_RULE = re.compile(r"#\s*(?:ruff:\s*)?noqa[^#]*\b(BLE001|C901|PLR09\d\d|TID251)\b", re.IGNORECASE)


# ---- reading the tree


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> Iterator[None]:
    """What is read here is large; kept, it would be walked whenever a later test collects garbage."""
    gc.disable()
    yield
    gc.enable()
    for cached in (nodes, text_of, tree):
        cached.cache_clear()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text_of(path), filename=str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All that is in a file, without `Load` and `Store`: a third quicker than `ast.walk`."""
    found: list[ast.AST] = [tree(path)]
    for node in found:  # grows as it is read
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
            elif name != "ctx" and isinstance(value, ast.AST):
                found.append(value)
    return found


def lines_with(pattern: re.Pattern[str], path: Path) -> Iterator[tuple[int, str, re.Match[str]]]:
    """Lines in which a pattern is found. Most files have none: each is searched whole before its lines are."""
    if pattern.search(text_of(path)):
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if match := pattern.search(line):
                yield number, line, match


@cache
def settings() -> dict[str, dict]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def imports() -> dict[str, set[str]]:
    """Who imports whom among our own modules; imports inside functions and for types count like any other."""
    graph = grimp.build_graph("tertulia", cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in sorted(graph.modules)}


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Of the module, its classes and functions, and of the names that have one below their definition."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(ast.Constant(str() as text)):
                        yield statement.lineno, text
                    case _:
                        pass


def variables(path: Path) -> Iterator[tuple[int, str]]:
    """Names that are assigned to, and parameters; the fields of a class are not among them, they may be stored."""
    fields = {
        node.target
        for owner in nodes(path)
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.AnnAssign)
    }
    for node in nodes(path):
        match node:
            case ast.Name(name, ast.Store()) if node not in fields:
                yield node.lineno, name
            case ast.arg(name) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case _:
                pass


def dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written; what follows on anything but a name begins with a dot."""
    match node:
        case ast.Attribute(value, name):
            return f"{dotted(value)}.{name}"
        case ast.Name(name):
            return name
        case _:
            return ""


def dotted_names(path: Path) -> set[str]:
    """Every name the file uses, spelled from the top: `from time import time as now` gives `time.time`."""
    known: dict[str, str] = {}
    for node in nodes(path):
        if isinstance(node, ast.Import):
            known |= {name.asname: name.name for name in node.names if name.asname}
        elif isinstance(node, ast.ImportFrom):
            known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    used = {dotted(node) for node in nodes(path) if isinstance(node, ast.Attribute)}
    spelled = {known.get(first, first) + dot + rest for first, dot, rest in (name.partition(".") for name in used)}
    return spelled | set(known.values())


def words_of(name: str) -> set[str]:
    """The words of `snake_case` and of `CamelCase`, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}


def refuse(findings: list[str], advice: str) -> None:
    if findings:
        pytest.fail("\n".join([*findings, "", advice]), pytrace=False)


# ---- sizes


def test_no_source_file_is_longer_than_400_lines() -> None:
    lengths = {path: len(text_of(path).splitlines()) for path in MODULES}
    refuse(
        [f"{short(path)}: {lines} lines" for path, lines in lengths.items() if lines > MAX_FILE_LINES],
        f"A file has at most {MAX_FILE_LINES} lines. Which noun wants to leave? Give it its own file.",
    )


def test_no_function_is_longer_than_50_lines() -> None:
    lengths = [
        (f"{short(path)}:{node.lineno}: {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for path in MODULES
        for node in functions(path)
    ]
    refuse(
        [f"{where} has {lines} lines" for where, lines in lengths if lines > MAX_FUNCTION_LINES],
        f"A function has at most {MAX_FUNCTION_LINES} lines. Name its steps and give each a function.",
    )


FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_overload(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in function.decorator_list)


def test_no_class_has_more_than_20_methods() -> None:
    classes = [
        (f"{short(path)}:{node.lineno}: {node.name}", node)
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    ]
    # An overload is a type of the method that follows it, and no method.
    counts = [
        (where, sum(not is_overload(member) for member in node.body if isinstance(member, FUNCTION_NODES)))
        for where, node in classes
    ]
    refuse(
        [f"{where} has {methods} methods" for where, methods in counts if methods > MAX_CLASS_METHODS],
        f"A class has at most {MAX_CLASS_METHODS} methods, with properties. Which part can live alone?",
    )


# ---- names and places


def test_no_file_is_a_drawer() -> None:
    refuse(
        [
            short(path)
            for path in MODULES
            if any(Path(part).stem.rpartition("_")[2] in DRAWERS for part in path.relative_to(SOURCE).parts)
        ],
        f"No file or folder is called {', '.join(sorted(DRAWERS))}. Name it after what is in it.",
    )


def test_the_tree_is_three_levels_deep() -> None:
    refuse(
        [short(path) for path in MODULES if len(path.relative_to(SOURCE).parts) > 3],
        "A folder is a stage, a folder in it a family, a file a noun or an act: stage/family/noun.py, no deeper.",
    )


def test_no_folder_has_more_than_20_files() -> None:
    folders = {path.parent for path in MODULES}
    counts = {folder: len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) for folder in folders}
    refuse(
        [f"{short(folder)}: {count} files" for folder, count in counts.items() if count > MAX_FILES_IN_A_FOLDER],
        f"A folder has at most {MAX_FILES_IN_A_FOLDER} files. Which of them are a family? Give it a folder.",
    )


def test_no_more_than_three_siblings_share_a_prefix() -> None:
    groups: dict[tuple[Path, str], int] = {}
    for path in MODULES:
        if "_" in path.stem.strip("_"):
            key = path.parent, path.stem.split("_")[0]
            groups[key] = groups.get(key, 0) + 1
    refuse(
        [
            f"{short(folder)}/{prefix}_*: {count} files"
            for (folder, prefix), count in groups.items()
            if count > MAX_SIBLINGS_WITH_A_PREFIX
        ],
        "Files that share a prefix are a family: give it a folder and drop the prefix.",
    )


def test_every_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(short(path))
    refuse(
        [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1],
        "Two classes of one name are told apart by nobody: add what it belongs to.",
    )


def test_names_use_the_words_of_the_glossary() -> None:
    files = [
        short(path) for path in MODULES if OLD_WORDS & {*path.stem.split("_"), *path.relative_to(SOURCE).parts[:-1]}
    ]
    classes = [
        f"{short(path)}:{node.lineno}: {node.name}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and (node.name in NO_NAMES or OLD_WORDS & words_of(node.name))
    ]
    refuse([*files, *classes], "Say what it is, in the words of the glossary (CONTRIBUTING.md).")


def test_names_of_tests_use_the_words_of_the_glossary() -> None:
    paths = sorted(path for folder in ("tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py"))
    files = [short(path) for path in paths if OLD_WORDS & {*path.stem.split("_"), *path.relative_to(ROOT).parts[:-1]}]
    names = [
        f"{short(path)}: {name}"
        for path in paths
        for name in DEFINED.findall(text_of(path))
        if OLD_WORDS & words_of(name) - (SENTENCE_WORDS if name.startswith("test_") else set())
    ]
    refuse([*files, *names], "Say what it is, in the words of the glossary (CONTRIBUTING.md).")


def test_no_test_judges_by_the_clock() -> None:
    refuse(
        [
            f"{short(path)}:{number}"
            for path in sorted(TESTS.rglob("*.py"))
            for number, _, _ in lines_with(BY_THE_CLOCK, path)
        ],
        "A busy machine is slow: measure CPU time (thread_time), or quiet seconds (QuietTime of tests/deadlines.py).",
    )


def test_every_folder_of_modules_is_a_package() -> None:
    folders = sorted({path.parent for path in MODULES})
    refuse(
        [short(folder) for folder in folders if not (folder / "__init__.py").is_file()],
        "Add an __init__.py whose docstring says in one line what the stage is.",
    )


def test_every_module_says_what_it_is() -> None:
    refuse(
        [short(path) for path in MODULES if not (ast.get_docstring(tree(path)) or "").strip()],
        "Begin the file with a docstring: what it is, and where it helps, what it is not.",
    )


def test_a_docstring_says_something() -> None:
    refuse(
        [
            f"{short(path)}:{line}: {text!r}"
            for path in MODULES
            for line, text in docstrings(path)
            if len(text.split()) < MIN_DOCSTRING_WORDS
        ],
        f"A docstring has at least {MIN_DOCSTRING_WORDS} words: say what the name does not say, or leave it out.",
    )


def test_the_source_names_who_acts() -> None:
    refuse(
        [
            f"{short(path)}:{number}: {line.strip()}"
            for path in MODULES
            for words in (NO_ACTORS, OLD_TURNS)
            for number, line, _ in lines_with(words, path)
        ],
        "Name the actor: the client, the caller, the model, the user, the process; and use plain words of today.",
    )


def test_a_variable_says_what_it_holds() -> None:
    refuse(
        [
            f"{short(path)}:{line}: {name}"
            for folder in ("src", "tests", "bench", "examples", "clients")
            for path in sorted((ROOT / folder).rglob("*.py"))
            if PARSED_WHEN.search(text_of(path))
            for line, name in variables(path)
            if name in NO_VARIABLES
        ],
        f"No variable is called {', '.join(sorted(NO_VARIABLES))}: say what it is (message, text, request).",
    )


def test_a_docstring_refers_to_what_exists() -> None:
    """A name in backticks that is no word of the source is the name of something that was renamed or is gone."""
    texts = {path: text_of(path) for path in MODULES}
    words = {word for text in texts.values() for word in CODE_WORD.findall(NAMED_CLASS.sub("", text))}
    refuse(
        [
            f"{short(path)}: `{name}`"
            for path, text in texts.items()
            for name in sorted(set(NAMED_CLASS.findall(text)))
            if name not in words
        ],
        "There is no such name in the source: say what it is called now.",
    )


def test_every_folder_has_a_folder_of_tests() -> None:
    folders = sorted({path.parent.relative_to(SOURCE) for path in MODULES} - {Path()})
    refuse(
        [
            f"src/tertulia/{folder}: no tests/{folder}"
            for folder in folders
            if not list((TESTS / folder).glob("test_*.py"))
        ],
        "Tests mirror the folders: what is in stage/family/ is tested in tests/stage/family/.",
    )


# ---- imports


def test_no_module_imports_itself_through_others() -> None:
    knots: list[str] = []
    try:
        graphlib.TopologicalSorter(imports()).prepare()
    except graphlib.CycleError as cycle:
        knots.append(" -> ".join(reversed(cycle.args[1])))
    refuse(knots, "Let the lower one declare a small Protocol that the upper one implements, or merge them.")


def test_families_import_each_other_one_way() -> None:
    """Directly. Import-linter counts detours through the files of the stage as well, which join families on purpose."""

    def row(module: str) -> tuple[str, int, str] | None:
        _, stage, family, *_ = (*module.split("."), "", "")
        rows = enumerate(FAMILIES.get(stage, ()))
        return next(((stage, number, family) for number, families in rows if family in families), None)

    refuse(
        [
            f"{importer} imports {imported}"
            for importer, targets in imports().items()
            if (above := row(importer)) is not None
            for imported in sorted(targets)
            if (below := row(imported)) is not None
            and above[0] == below[0]
            and above[2] != below[2]
            and above[1] >= below[1]
        ],
        "Move what both need into a row below, or into a file of the stage itself (FAMILIES in this file).",
    )


def test_no_hook_is_put_into_an_object_after_it_was_made() -> None:
    """What an object calls it gets when it is made, or it offers a method to subscribe: no `made.hook = function`."""
    hooks = {
        node.target.attr
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Attribute)
        and any(isinstance(part, ast.Name) and part.id == "Callable" for part in ast.walk(node.annotation))
    }
    refuse(
        [
            f"{short(path)}:{node.lineno}: {dotted(target)} = …"
            for path in MODULES
            for node in nodes(path)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Attribute)
            and dotted(target.value) not in ("self", "cls")
            and (target.attr in hooks or isinstance(node.value, ast.Lambda))
        ],
        "Pass the function to the constructor; where two objects need each other, both get the parts of the session.",
    )


def test_whatever_needs_the_session_gets_it_when_it_is_made() -> None:
    """`SessionParts | None`: there is a time at which it is not there yet. Only the session itself has one."""
    refuse(
        [
            f"{short(path)}:{node.lineno}"
            for path in MODULES
            if short(path) != "src/tertulia/session/session.py"
            for node in nodes(path)
            if isinstance(node, ast.AnnAssign) and {"SessionParts", "None"} <= set(ast.unparse(node.annotation).split())
        ],
        "Take SessionParts as an argument of the constructor.",
    )


def test_the_parts_of_a_session_are_used_inside_its_folder_only() -> None:
    """A surface goes through the methods of `Session` and `Conversation`, so what they promise holds everywhere."""
    fields = {
        node.target.id
        for node in ast.walk(tree(SOURCE / "session" / "parts.py"))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    outside = [path for path in MODULES if SOURCE / "session" not in path.parents]

    def is_reaching_in(node: ast.AST) -> bool:
        match node:
            case ast.ImportFrom(module="tertulia.session.parts"):
                return True
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr="parts"):
                return "session" in owner.lower()
            case ast.Attribute(value=ast.Attribute(attr="parts"), attr=name):
                return name in fields
            case _:
                return False

    refuse(
        [f"{short(path)}:{node.lineno}" for path in outside for node in nodes(path) if is_reaching_in(node)],  # pyright: ignore[reportAttributeAccessIssue]
        "Give Session, Conversation, SessionActivity or ConversationDetails the method that is needed.",
    )


# ---- exemptions


def test_nobody_silences_a_held_rule_in_passing() -> None:
    files = [path for folder in ("src", "tests", "bench", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
    refuse(
        [
            f"{short(path)}:{number}: {found[1]}"
            for path in files
            if "noqa" in text_of(path).lower()
            for number, _, found in lines_with(NOQA_OF_A_HELD_RULE, path)
        ],
        "Nothing is exempt from size and complexity: split it. Broad excepts and banned names are allowed by "
        "file name in pyproject.toml, and a new name there is something to discuss in review.",
    )


def test_only_five_places_catch_broadly() -> None:
    freed = settings()["tool"]["ruff"]["lint"]["per-file-ignores"]
    catchers = [pattern for pattern, rules in freed.items() if "BLE001" in rules]
    assert len(catchers) <= MAX_BROAD_CATCHERS, (
        f"Exceptions pass through; {catchers} are too many places that stop them."
    )


def test_a_file_freed_from_a_ban_uses_only_what_it_was_freed_for() -> None:
    lint = settings()["tool"]["ruff"]["lint"]
    banned = tuple(lint["flake8-tidy-imports"]["banned-api"])
    freed = [pattern for pattern, rules in lint["per-file-ignores"].items() if "TID251" in rules]
    assert set(freed) == set(FREED_FOR), "pyproject.toml and FREED_FOR in this file name the same files"
    held = {pattern: {name for name in banned if not name.startswith(FREED_FOR[pattern])} for pattern in freed}
    refuse(
        [
            f"{short(path)} uses {name}"
            for pattern in freed
            for path in sorted(ROOT.glob(f"{pattern}/*.py" if pattern.endswith("**") else pattern))
            # Under any other name it is imported by its own: a file without that word is not parsed.
            if any(name.rpartition(".")[2] in text_of(path) for name in held[pattern])
            for name in sorted(held[pattern] & dotted_names(path))
        ],
        "See the message of that ban in pyproject.toml for the way to do it.",
    )


# ---- the lock


def test_the_lock_pins_every_declared_dependency_and_names_no_address() -> None:
    declared = [*settings()["project"]["dependencies"], *settings()["dependency-groups"]["dev"]]
    declared += settings()["project"]["optional-dependencies"]["local"]
    lock = (ROOT / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    names = {re.split(r"[\s\[<>=!~;@]", requirement)[0].lower().replace("_", "-") for requirement in declared}
    refuse([f"{name} is not pinned" for name in sorted(names - pinned)], "Run `make lock`.")
    addresses = [line for line in lock.splitlines() if re.search(r"://|^-|\s/", line)]
    refuse(addresses, "requirements.lock names packages and hashes, never where to get them. Run `make lock`.")
