"""Hand-made edits after the codemod. Each says the file and what becomes of a text; missing ones are printed."""
import re, subprocess, sys
from pathlib import Path
root = Path(sys.argv[1])
def sub(path, *pairs):
    p = root / path
    if not p.exists(): print("MISSING FILE", path); return
    t = p.read_text()
    for a, b in pairs:
        if a not in t: print("MISSING", path, repr(a[:60])); continue
        t = t.replace(a, b)
    p.write_text(t)
def mv(a, b):
    if (root / a).exists():
        (root / b).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", "-f", a, b], cwd=root, check=True)
    else: print("MISSING", a)
mv("src/tertulia/testing.py", "src/tertulia/testing/__init__.py")
mv("src/tertulia/apps/demo.json", "src/tertulia/cli/demo.json")
mv("src/tertulia/models/tour.json", "src/tertulia/models/scripted/tour.json")
mv("src/tertulia/models/chatml.jinja", "src/tertulia/models/local/chatml.jinja")
subprocess.run(["git", "rm", "-qf", "--ignore-unmatch", "src/tertulia/apps/__init__.py"], cwd=root, check=True)
for f in ("mounts/mount_plan", "mounts/helper_client", "launcher/launched_process"):
    sub(f"src/tertulia/sandbox/{f}.py", ("os.path.dirname(os.path.dirname(os.path.dirname(__file__)))", "os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))"))
errors = [l.split("\t") for l in open(Path(__file__).with_name("surfaces.tsv")) if l.startswith("name\ttertulia.errors\t")]
p = root / "src/tertulia/errors.py"; t = p.read_text(); doc, rest = t.split('"""\n', 1)[0] , t.split('"""\n', 1)[1]
for _, _, old, new in errors:
    new = new.strip()
    doc = re.sub(r"\b" + old + r"\b( *)(?=[a-z ])" if False else r"(?<=[─ ])" + old + r"(?=( |$))", new, doc, flags=re.M)
doc = re.sub(r"^(\s*[│├└─ ]*)(\w+Error)( {2,})", lambda m: m.group(1) + m.group(2) + " " * max(1, 42 - len(m.group(1) + m.group(2))), doc, flags=re.M)
doc = doc.replace("    AgentError\n", "    TertuliaError\n").replace("`code` is spelled on the class and stays, whatever the class is called; every surface shows it. An error's `detail` holds plain data (numbers,\nstrings, lists) and", "`code` is spelled on the class and stays, whatever the class is called; every surface shows it. An error's `detail`\nholds plain data (numbers, strings, lists) and")
p.write_text(doc + '"""\n' + rest)
sub("src/tertulia/__init__.py", ('"AgentError"', '"TertuliaError"'))
sub("src/tertulia/testing/__init__.py", ('"Asked"', '"ScriptedRequest"'))
sub("src/tertulia/cli/main.py", ('importlib.import_module(f"tertulia.cli.{cmd_name.replace(\'-\', \'_\')}").command', 'importlib.import_module(f"tertulia.cli.{_HOMES.get(cmd_name, cmd_name)}").command'),
    ('"""Every verb that there is; `apps` has a module for each."""', '''"""Every verb that there is."""
_HOMES = {
    "acp": "serve.acp",
    "app-server": "serve.app_server",
    "exec": "exec.command",
    "mcp": "mcp.command",
    "mcp-broker": "serve.mcp_broker",
    "mcp-server": "serve.mcp_server",
    "serve": "serve.web",
    "sessions": "sessions.command",
}
"""Where a verb is that has no module of its name directly in `cli`."""'''))
DOCS = {
    "server/jsonrpc": "JSON-RPC over a stream: framing, bounded parsing, one connection, its events.",
    "server/http": "The HTTP and WebSocket server: guards, tokens, bodies, routes.",
    "server/acp": "Sessions for editors that speak the Agent Client Protocol.",
    "server/codex": "Sessions for clients that were written for `codex app-server`.",
    "server/mcp": "Conversations, and the broker's tools, as an MCP server.",
    "cli/exec": "`tertulia exec`: one message, followed to its end, as text or as JSON lines.",
    "cli/sessions": "`tertulia sessions`: stored sessions listed, shown, exported, replayed, forked.",
    "cli/mcp": "`tertulia mcp`: the configured MCP servers, edited, trusted and tried out.",
    "cli/serve": "Verbs that serve another program: HTTP, ACP, JSON-RPC, MCP, the broker.",
    "cli/output": "What people see: columns, colours, JSON lines, the tree of conversations.",
    "session/settings": "Settings: files, environment and flags, parsed, layered, each with its origin.",
    "session/resume": "Stored sessions: read back, rebuilt, closed where they were open, forked, verified, swept.",
    "session/agents": "Agents: prepared, registered, and reached by other programs through sockets.",
    "session/approvals": "Approvals and elicitations: who can answer, and how an answer arrives.",
    "session/mcp": "The MCP servers of a session, and a session's tools served over MCP.",
    "context/providers": "The context providers that ship with Tertulia.",
    "mcp/config": "Configured MCP servers: definitions, files, trust, how each is launched.",
    "mcp/client": "One connection to one MCP server: transports, repair of answers, errors.",
    "mcp/pool": "Server processes shared by conversations: started, watched, restarted, closed.",
    "mcp/serve": "Being an MCP server, on top of the SDK.",
    "rollout/format": "Records as rows: encoded, packed, referred to, read back.",
    "rollout/sqlite": "One SQLite file a session, its index, its owner, its reader.",
    "rollout/sweep": "What may not be stored any longer is erased.",
    "executors/command": "Agents that are run once a task, as a command.",
    "executors/acp": "Agents that stay, spoken to by the Agent Client Protocol.",
    "executors/prompt": "The history of a conversation as a prompt for another agent.",
    "tools/shell": "Commands: asked for, approved, run, and kept running.",
    "tools/patch": "`apply_patch`: a patch read, matched, planned and written whole.",
    "tools/mcp": "Tools of MCP servers, approved and called.",
    "sandbox/limits": "Limits of memory, files, processes and written bytes.",
    "sandbox/launcher": "The processes above a command that bubblewrap does not hold, and the tiers built on them.",
    "sandbox/mounts": "What a command sees of the file system below bubblewrap, mounted by descriptor.",
    "sandbox/masks": "Paths that commands may not read or change: credentials, startup files, our own.",
    "sandbox/protected": "Protected files: what a command changed of them, found and put back.",
    "policy/approvals": "Requests, answers and grants of approvals.",
    "policy/commands": "What a command is: its words, whether it only reads, which files it names.",
    "models/http": "Providers over HTTP: the three wires, streaming, retries, errors.",
    "models/local": "The embedded model: weights, the program that runs them, its wire.",
    "models/scripted": "The scripted model.",
}
for folder, text in DOCS.items():
    p = root / "src/tertulia" / folder / "__init__.py"
    if p.exists(): p.write_text(f'"""{text}"""\n')
    else: print("MISSING", folder)
sub("pyproject.toml", ('tertulia = "tertulia.apps.cli:main"', 'tertulia = "tertulia.cli.main:main"')) if "tertulia.apps.cli:main" in (root / "pyproject.toml").read_text() else None

sub("pyproject.toml", ('"src/tertulia/apps/**" = ["T20"]', '"src/tertulia/cli/**" = ["T20"]'), ('"apps | testing"', '"cli | testing"'), ("tertulia.apps -> *", "tertulia.cli -> *"), ("tertulia.apps.** -> *", "tertulia.cli.** -> *"))
for f, old, new in (("executors/acp/test_pipe", "pipe", "acp_pipe"), ("executors/acp/test_task", "task", "acp_task"), ("server/codex/test_server", "server", "codex_server")):
    p = root / f"tests/{f}.py"; t = p.read_text()
    t = re.sub(r"^(from tertulia\.[a-z.]+ import )" + old + r"$", r"\1" + old + " as " + new, t, flags=re.M)
    t = re.sub(r"setattr\(" + old + r", ", f"setattr({new}, ", t)
    p.write_text(t)
p = root / "tests/session/resume/test_fork.py"; t = p.read_text()
t = t.replace("import fork\n", "import fork as fork_module\n").replace("setattr(fork, ", "setattr(fork_module, "); p.write_text(t)
sub("tests/session/settings/test_settings.py", ("import tertulia.session.settings.values\n", "")) if False else None

sub("src/tertulia/schema/check.py", ("{same(each, budget)}", "{canonical_value(each, budget)}"))
sub("tests/session/settings/test_settings.py", ("from tertulia.session.settings.settings import Settings\n", "from tertulia.session.settings import values\nfrom tertulia.session.settings.settings import Settings\n"))
sub("src/tertulia/conversation/backend.py", ("it raises AgentError to fail. Cancelled, it has stopped, and", "it raises TertuliaError to fail. Cancelled, it has stopped,\n    and"))
sub("src/tertulia/errors.py", ("never the text of a conversation: it is shown, logged and sent over wires.", "never the text of a conversation: it is shown, logged and sent over\nwires."))
sub("src/tertulia/mcp/client/call_result.py", ("The result of a call as an `CallResult`: text within its bound, pictures as parts, and a line for all that is neither.", "The result of a call as a `CallResult`: text within its bound, pictures as parts, a line for all that is neither."))
sub("src/tertulia/mcp/client/error_text.py", ("return \"protocol\", f\"the server's answer cannot be read: {quote_server_text(error.message.removeprefix(UNREADABLE_PREFIX))}\"", "why = error.message.removeprefix(UNREADABLE_PREFIX)\n            return \"protocol\", f\"the server's answer cannot be read: {quote_server_text(why)}\""))
sub("src/tertulia/rollout/format/row_reader.py", ("    msgspec.MsgspecError, TertuliaError, ArithmeticError,", "    msgspec.MsgspecError, TertuliaError,\n    ArithmeticError,"), ("Use a `RowReader` to go on later, or to learn what is known.", "A `RowReader` can go on later, and tells what is known."))
sub("src/tertulia/scheduler/task_runner.py", ("        self, house: ConversationSource, around: TaskServices, nursery: Nursery, registry: TaskRegistry, interrupts: Handoffs,", "        self, house: ConversationSource, around: TaskServices, nursery: Nursery, registry: TaskRegistry,\n        interrupts: Handoffs,"))
sub("src/tertulia/session/settings/settings.py", ("as they are written; see `session/mcp/configured_servers.py` for which may start.", "as they are written; `session/mcp/configured_servers.py` says which may start."))
for f in ("src/tertulia/context/tokens.py", "src/tertulia/server/codex/server.py"): pass
sub("src/tertulia/context/tokens.py", ("""        return f"SessionToken({self.token[:VISIBLE_CHARACTERS]!r}…, {self.agent_name!r}, {self.session_id!r}, pid={self.pid})\"""", """        begins = self.token[:VISIBLE_CHARACTERS]
        return f"SessionToken({begins!r}…, {self.agent_name!r}, {self.session_id!r}, pid={self.pid})\""""))

sub("src/tertulia/server/codex/server.py", ("""                "userAgent": f"tertulia/{CODEX_VERSION} (tertulia {__version__}) unknown ({client.name}; {client.version})",""", """                "userAgent": f"tertulia/{CODEX_VERSION} (tertulia {__version__}) unknown "
                f"({client.name}; {client.version})","""))

for p in sorted((root / "tests/apps").rglob("*")):
    if p.is_file() and "__pycache__" not in p.parts: mv(str(p.relative_to(root)), "tests/cli/" + str(p.relative_to(root / "tests/apps")))
for top in ("tests", "bench"):
    for p in (root / top).rglob("*.py"):
        t = p.read_text(); n = t.replace("tests.apps.", "tests.cli.").replace("tests/apps/", "tests/cli/")
        if n != t: p.write_text(n)
sub("src/tertulia/tools/function.py", ("function.docstring_summary(", "docstring_summary("), ("function.docstring_parameters(", "docstring_parameters("))
sub("src/tertulia/session/settings/settings.py", ("as they are written; `session/mcp/configured_servers.py` says which may start.", "as written; `session/mcp/configured_servers.py` says which may start."))
sub("tests/sandbox/launcher/test_program.py", ("import sys; from tertulia.sandbox.launcher.program import serve; serve(int", "import sys; from tertulia.sandbox.launcher.program import serve\nserve(int"))
sub("tests/session/resume/test_rebuild.py", ("RecordedSegment((call(\"c1\"),), missing=(0,)), RecordedSegment((output(\"c1\"),), missing=(0,)), RecordedSegment((call(\"c2\"),), missing=(0,)),", "RecordedSegment((call(\"c1\"),), missing=(0,)), RecordedSegment((output(\"c1\"),), missing=(0,)),\n        RecordedSegment((call(\"c2\"),), missing=(0,)),"), ("RecordedSegment((user(\"hi\"),), ts=1.0), RecordedSegment((call(\"c1\"),), missing=(0,), ts=3.0), RecordedSegment((model(\"ho\"),), ts=2.0),", "RecordedSegment((user(\"hi\"),), ts=1.0), RecordedSegment((call(\"c1\"),), missing=(0,), ts=3.0),\n        RecordedSegment((model(\"ho\"),), ts=2.0),"))

sub("tests/guards.py", ("real = module.assemble\n", "real = module.assemble_session\n"), ('monkeypatch.setattr(module, "assemble", assemble)', 'monkeypatch.setattr(module, "assemble_session", assemble)'))
sub("tests/test_errors.py", ('"Cancelled", "Timeout", "ApprovalDenied", "SandboxError", "McpError", "ToolConflict"', '"TaskCancelledError", "TaskTimeoutError", "ApprovalDeniedError", "SandboxError", "McpError", "ToolConflictError"'), ('"StoragePolicyViolation", "Internal"', '"StoragePolicyViolationError", "InternalError"'), ('"NotFound", "InvalidParams", "Busy", "Closed", "DepthExceeded"', '"NotFoundError", "InvalidParamsError", "BusyError", "ClosedError", "DepthExceededError"'))
sub("tests/test_exported_members.py", ('"AgentError"', '"TertuliaError"'), ('"Asked"', '"ScriptedRequest"'))
sub("tests/policy/test_redaction_error_text.py", ("policy/test_error_text.py:", "policy/test_redaction_error_text.py:"))
sub("tests/prompt/test_instructions.py", ("'builtin'", "'builtin_text'")) if "'builtin'" in (root / "tests/prompt/test_instructions.py").read_text() else sub("tests/prompt/test_instructions.py", ('"builtin"', '"builtin_text"'))
sub("tests/conversation/test_executor_backend.py", ("see also `tests/session/agents/test_backends_backends.py`", "see `tests/session/agents/test_backends_backends.py`"))
for p in (root / "src/tertulia/__init__.py", root / "src/tertulia/testing/__init__.py", root / "tests/test_exported_members.py"):
    t = p.read_text()
    def sort_block(m):
        lines = m.group(2).strip("\n").split("\n")
        return m.group(1) + "\n".join(sorted(lines, key=lambda l: l.strip().strip('",'))) + "\n" + m.group(3)
    t = re.sub(r"(__all__ = \[\n|[A-Z_]+ = \[\n|[A-Z_]+ = \{\n)((?:    \"[^\n]*\n)+)([\]}])", sort_block, t)
    p.write_text(t)
sub("tests/test_package_loading.py", ('SOURCE / "models" / "llama.py"', 'SOURCE / "models" / "local" / "llama_program.py"'))
sub("tests/test_errors.py", ("def test_the_codes_are_the_snake_case_names_and_no_two_are_the_same", "def test_the_codes_are_those_of_the_design_and_no_two_are_the_same"))
for f in ("tests/prompt/test_instructions.py", "tests/prompt/test_tool_list.py"):
    p = root / f; t = p.read_text(); p.write_text(re.sub(r"(?<![\w.])assemble\(", "assemble_tools(", t))
sub("tests/test_package_loading.py", ('"import sys\\nfrom tertulia.mcp import broker, connection\\nfrom tertulia.executors import acp_process\\n"', '"import sys\\nfrom tertulia.mcp.client import connection\\n"\n        "from tertulia.mcp.serve import endpoint\\nfrom tertulia.executors.acp import process\\n"'), ('"connection._load()\\nbroker.load_sdk()\\nacp_process.load_sdk()\\n"', '"connection._load()\\nendpoint.load_sdk()\\nprocess.load_sdk()\\n"'))
RENAMED_TESTS = {
    "server/acp/test_agent_as_acp_stdio": "server/acp/test_agent_stdio", "server/acp/test_editor_as_acp_buffers": "server/acp/test_editor_buffers",
    "server/acp/test_updates_as_acp_history": "server/acp/test_updates_history", "server/mcp/test_message_call_mcp_progress": "server/mcp/test_message_call_progress",
    "server/mcp/test_line_transport_mcp_stdio": "server/mcp/test_line_transport_stdio", "server/mcp/test_broker_server_mcp_brokers": "server/mcp/test_broker_server_clients",
    "server/mcp/test_conversation_server_shelf": "server/mcp/test_conversation_server_library", "session/test_command_services_workshop": "session/test_command_services_opened",
    "session/test_conversation_directory_directory": "session/test_conversation_directory_views", "session/agents/test_backends_backends": "session/agents/test_backends_command",
    "cli/mcp/test_tools_mcp_refresh": "cli/mcp/test_tools_refresh", "cli/test_demo_demo_stage": "cli/test_demo_view", "tools/test_images_named_pictures": "tools/test_images_in_workspace",
    "tools/mcp/test_mcp_tool_remote_progress": "tools/mcp/test_mcp_tool_progress", "tools/mcp/test_mcp_tool_remote_answer": "tools/mcp/test_mcp_tool_result",
    "mcp/test_limiter_doors": "mcp/test_limiter_in_flight", "sandbox/test_bubblewrap_process_process_watch": "sandbox/test_bubblewrap_process_limits",
    "sandbox/test_command_streams_kept_output": "sandbox/test_command_streams_output",
}
for a, b in RENAMED_TESTS.items(): mv(f"tests/{a}.py", f"tests/{b}.py")
for p in (root / "tests").rglob("*.py"):
    t = n = p.read_text()
    for a, b in RENAMED_TESTS.items(): n = n.replace(f"tests/{a}.py", f"tests/{b}.py").replace("tests." + a.replace("/", "."), "tests." + b.replace("/", "."))
    if n != t: p.write_text(n)
sub("tests/fuzz/targets.py", ('"tertulia.policy.known_"', '"tertulia.policy.commands.safe_programs"'), ('("tertulia.tools.patch_",)', '("tertulia.tools.patch.",)'))
STAGES = {
    "cli": "The program `tertulia`: one module a verb, and what verbs share.",
    "server": "Ways in for other programs: JSON-RPC, HTTP, ACP, Codex clients and MCP.",
    "session": "The session and its conversations: settings, operations, assembly, shutdown.",
    "scheduler": "Which chain runs next: chains in a queue, frames in a chain, one slot; every started task has one owner.",
    "conversation": "One conversation: its terms, its state, the turn loop, and tasks that an executor does.",
    "prompt": "What the model sees in one request: instructions, history and tools.",
    "context": "What an agent is told before it starts: servers, tools and texts, collected from context providers.",
    "tools": "What a model can do: one interface (`tool`), one file a tool, one dispatch.",
    "executors": "Other programs that do a conversation's work: one interface (`executor`), run once a task or kept running.",
    "models": "The wires to models: one interface (`wire`), the catalogue, and the choice of a model.",
    "mcp": "MCP servers: configured, connected, pooled, limited, and being one.",
    "history": "The items of a conversation in memory: frozen segments, paired, bounded, encoded once.",
    "rollout": "The records of a session on disk, as the storage policy allows.",
    "sandbox": "Running a command confined, with limits, and ending all of it.",
    "policy": "What is allowed: rights that only narrow, approvals, limits, redaction.",
    "events": "The event bus: events are stamped once, committed before delivery, and no subscriber blocks another.",
    "protocol": "Frozen data that all stages use: ids, items, inputs, events, tool specs, storage policies.",
    "schema": "JSON Schema, checked in bounded time. Knows schemas and values, nothing of tools.",
}
for folder, text in STAGES.items(): (root / "src/tertulia" / folder / "__init__.py").write_text(f'"""{text}"""\n')
