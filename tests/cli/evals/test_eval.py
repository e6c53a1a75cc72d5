"""Issue 24, 7: `tertulia eval` from its command line to its table and page, with a scripted model."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tertulia.evals.results import read_results
from tertulia.models.local.weights import WEIGHTS
from tests.cli.running import NEVER_MS, Shell
from tests.deadlines import HANG_S
from tests.evals.suites import SOUND, write_task
from tests.models.real_weights import WEIGHTS_FILE, needs_the_embedded_model
from tests.tables import each_row

OWN_SUITE = Path(__file__).parents[3] / "evals"
_LEFT_S = 3_599_917
"""Of a process that is left behind: no other test has one that sleeps so long."""
_MEND = "sed -i s/-/+/ calc.py"


_TESTS = """import unittest
import calc

class T(unittest.TestCase):
    def test_zero(self):
        assert calc.add(0, 0) == 0
"""
_TEST_PATCH = """--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -4,3 +4,5 @@
 class T(unittest.TestCase):
     def test_zero(self):
         assert calc.add(0, 0) == 0
+    def test_add(self):
+        assert calc.add(2, 3) == 5
"""
_PATCH = """--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


def _shell(match: str, script: str) -> dict[str, Any]:
    return {"match": match, "tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", script]}}]}


def _is_running(command: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text(errors="replace") == command:
                return True
        except OSError:
            # It has ended meanwhile.
            continue
    return False


def _suite(shell: Shell, *names: str, **others: Any) -> Path:
    suite = shell.folder / "suite"
    for name in names:
        write_task(suite, name, prompt=f"Task {name}.", **others)
    return suite


def test_a_run_of_each_outcome_is_told_apart_and_can_be_replayed(shell: Shell) -> None:
    """The check is neither in the workspace nor to be seen, and nothing of a run is left but its session."""
    suite = _suite(shell, "mended", "wrong", "provider")
    blind = f"found = open('found').read()\nassert 'calc.py' in found and '{suite}/spy' not in found, found\n"
    write_task(suite, "spy", prompt="Task spy.", check=f"{blind}assert 'two and' not in found\n{SOUND}")
    write_task(suite, "held", prompt="Task held.", more="sandbox = 'read-only'\n")
    write_task(suite, "slow", prompt="Task slow.", more="timeout_s = 0.2\n")
    write_task(suite, "stuck", prompt="Task stuck.", more="check_timeout_s = 0.2\n")
    spying = f"(grep -rl add {suite} . /tmp; find . .. -name check.py; cat {suite}/*/check/check.py) > found 2>&1"
    model = shell.script(
        _shell("Task mended", f"{_MEND}; (setsid sleep {_LEFT_S} &)"),
        _shell("Task spy", f"{spying}; {_MEND}"),
        _shell("Task held", _MEND),
        _shell("Task stuck", "echo 'while True: pass' > calc.py"),
        {"match": "Task provider", "error": "The provider is overloaded"},
        {"match": "Task slow", "text": "late", "delay_ms": NEVER_MS},
        {"match": {"regex": ""}, "text": "Done.", "repeat": True},
    )
    ran = shell.run("eval", "suite", "-m", model, "--jobs", "4", "--html", "page.html")
    records = {one.task: one for one in read_results(shell.folder / "eval-suite.jsonl")}
    assert {name: one.outcome for name, one in records.items()} == {
        "mended": "passed",
        "spy": "passed",
        "wrong": "wrong",
        "held": "wrong",
        "provider": "provider",
        "slow": "timeout",
        "stuck": "check",
    }, (ran.out, ran.err)
    assert ran.code == 0
    assert "2/7" in ran.out
    replayed = shell.run("sessions", "replay", records["spy"].session)
    assert "Task spy." in replayed.out
    assert "two and three" in records["wrong"].detail
    assert (records["mended"].calls, records["mended"].requests, records["mended"].answer) == (1, 2, "Done.")
    assert not _is_running(f"sleep\0{_LEFT_S}\0"), "a process of the candidate was left behind"
    page = (shell.folder / "page.html").read_text()
    assert f"tertulia sessions replay {records['wrong'].session}" in page
    assert "<script" not in page
    assert "http" not in page
    again = shell.run("eval", "suite", "-m", model)
    assert "7 of 7 runs are there already" in again.err


def test_a_task_of_our_own_suite_is_done_by_three_colleagues(shell: Shell) -> None:
    """What a check is told of calls and conversations comes from the session that was run."""
    words = ("north", "south", "coast")
    colleagues = [
        {
            "name": "conv_create",
            "arguments": {
                "title": word,
                "base_instruction_text": f"You know {word}.",
                "user_instruction": "Your word?",
            },
        }
        for word in words
    ]
    write = {"command": ["sh", "-c", f"printf '%s\\n' {' '.join(words)} > answers.txt"]}
    model = shell.script(
        {"match": "Open three conversations", "tool_calls": colleagues},
        *({"match": {"conversation": f"You know {word}."}, "text": word} for word in words),
        {"tool_calls": [{"name": "shell", "arguments": write}]},
        "Done.",
    )
    ran = shell.run("eval", str(OWN_SUITE), "--only", "delegate-three-opinions", "-m", model, "--out", "x.jsonl")
    (one,) = read_results(shell.folder / "x.jsonl")
    assert (one.outcome, one.calls, one.requests) == ("passed", 4, 6), (one, ran.err)


def test_candidates_stand_side_by_side_and_are_compared_in_words(shell: Shell) -> None:
    _suite(shell, "a")
    good = shell.script(_shell("Task", _MEND), "Done.", repeat=True)
    (shell.folder / "bad.json").write_text(json.dumps({"replies": ["I give up."], "repeat": True}))
    ran = shell.run("eval", "suite", "-m", good, "-m", "scripted/bad.json", "--vary", "temperature=0", "--json")
    assert ran.code == 0, ran.err
    assert {row["name"]: row["passed"] for row in ran.lines} == {
        f"{good} temperature=0": 1,
        "scripted/bad.json temperature=0": 0,
    }
    compared = shell.run(
        "eval", "compare", f"eval-suite.jsonl#{good} temperature=0", "eval-suite.jsonl#scripted/bad.json temperature=0"
    )
    assert "1 task of 1 changed: 0 better, 1 worse." in compared.out
    assert shell.run("eval", "report", "eval-suite.jsonl").out.count("1/1") == 1


def test_an_executor_stands_beside_a_model_and_sees_no_check(shell: Shell) -> None:
    """Its program is outside of our sandbox, and looks for the checks by their path and by other processes."""
    suite = _suite(shell, "a")
    results = shell.folder / "eval-suite.jsonl"
    places = f"{suite} /proc/*/root{suite} /proc/*/cwd/suite"
    spying = f"grep -rl add {places} 2>/dev/null; wc -c < {results}; ls -A {suite}; umount {suite} 2>/dev/null"
    program = json.dumps(["sh", "-c", f'{_MEND}; cat >/dev/null; echo "found: $({spying})"'])
    table = ("-c", f"executors.mender.command={program}", "-c", "executors.mender.sandbox.workspace-write=[]")
    model = shell.script("I give up.", repeat=True)
    ran = shell.run("eval", "suite", "--backend", "command:mender", "-m", model, *table)
    records = {one.candidate: one for one in read_results(results)}
    mender = records["command:mender"]
    assert (mender.outcome, mender.answer, mender.confined) == ("passed", "found: 0", True), (mender, ran.err)
    assert (records[model].outcome, records[model].confined) == ("wrong", True)
    assert "does not hide the checks" not in ran.out


@pytest.mark.torture
@needs_the_embedded_model
def test_a_real_model_on_this_machine_takes_part(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it passes is its own affair: the harness is proved by what it counted. Takes ten seconds of CPU."""
    monkeypatch.setenv("TERTULIA_HOME", str(shell.folder / "home"))
    (shell.folder / "home" / "models").mkdir(parents=True)
    (shell.folder / "home" / "models" / WEIGHTS_FILE.name).symlink_to(WEIGHTS_FILE)
    _suite(shell, "a")
    # With few words to read it needs little of the machine.
    small = ("shell_mode=none", "include_conv_tools=false", "include_apply_patch_tool=false", "include_plan_tool=false")
    agent = ("agents.tiny.base_instructions=Answer with one word.", f"agents.tiny.model={WEIGHTS[0].model}")
    settings = [word for setting in (*small, *agent) for word in ("-c", setting)]
    ran = shell.run("eval", "suite", "--agent", "tiny", *settings)
    assert ran.code == 0, ran.err
    (one,) = read_results(shell.folder / "eval-suite.jsonl")
    assert (one.outcome, one.requests) == ("wrong", 1), one
    assert min(one.input_tokens, one.output_tokens) > 0


@each_row("policy", ["none", "headers-only", "ttl:60"])
def test_no_text_is_written_to_results_that_may_not_be_stored(policy: str, shell: Shell) -> None:
    if not (shell.folder / "suite").exists():
        _suite(shell, "a", check="from eval_run import answer\nassert not answer, answer\n")
    model = shell.script({"match": "Task", "text": "canary-7141"}, repeat=True)
    words = ("--storage", policy, "--out", f"{policy}.jsonl", "--html", f"{policy}.html")
    ran = shell.run("eval", "suite", "-m", model, *words)
    assert ran.code == 0, ran.err
    (one,) = read_results(shell.folder / f"{policy}.jsonl")
    assert (one.outcome, bool(one.session)) == ("wrong", policy != "none")
    for kind in ("jsonl", "html"):
        assert "canary-7141" not in (shell.folder / f"{policy}.{kind}").read_text()


def test_a_candidate_writes_its_copy_alone(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever other directories the settings let it write: those of the user are not part of a task."""
    _suite(shell, "a")
    outside = tmp_path_factory.mktemp("outside")
    model = shell.script(_shell("Task a", f"{_MEND}; echo x > {outside}/x; true"), "Done.")
    ran = shell.run("eval", "suite", "-m", model, "--add-dir", str(outside), "--json")
    assert ran.code == 0, ran.err
    assert (ran.lines[0]["passed"], list(outside.iterdir())) == (1, [])


def test_refusals_by_policy_are_a_kind_of_their_own(shell: Shell) -> None:
    _suite(shell, "a")
    asks = {"command": ["touch", "/etc/x"], "with_escalated_permissions": True, "justification": "I want to."}
    model = shell.script({"match": "Task", "tool_calls": [{"name": "shell", "arguments": asks}]}, "Not allowed.")
    shell.run("eval", "suite", "-m", model, "-c", "shell_mode=with_request")
    (one,) = read_results(shell.folder / "eval-suite.jsonl")
    assert one.outcome == "refused", one


def test_what_a_killed_command_left_is_removed_by_the_next_which_goes_on(shell: Shell) -> None:
    _suite(shell, "a", "b")
    model = shell.script({"match": "Task a", "text": "No."}, {"match": "Task b", "text": "", "delay_ms": NEVER_MS})
    places = Path(tempfile.mkdtemp())
    with shell.start("eval", "suite", "-m", model, stderr=subprocess.STDOUT, env={"TMPDIR": str(places)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"wrong     a")
        deadline = time.monotonic() + HANG_S
        while not list(places.glob("tertulia-eval-*/workspace/calc.py")):
            assert time.monotonic() < deadline, "the second run has no workspace"
            Event().wait(0.01)
        process.kill()
        process.communicate(timeout=HANG_S)
    (left,) = places.glob("tertulia-eval-*")
    (places / "tertulia-eval-being-made").mkdir()
    model = shell.script(_shell("Task b", _MEND), "Done.")
    ran = shell.spawn("eval", "suite", "-m", model, env={"TMPDIR": str(places)})
    assert (ran.code, "1 of 2 runs are there already" in ran.err) == (0, True), ran.err
    assert [one.outcome for one in read_results(shell.folder / "eval-suite.jsonl")] == ["wrong", "passed"]
    assert not left.exists()
    assert [path.name for path in places.glob("tertulia-eval-*")] == ["tertulia-eval-being-made"]
    shutil.rmtree(places)


def test_a_stopped_command_keeps_what_is_done_and_goes_on(shell: Shell) -> None:
    _suite(shell, "a", "b")
    model = shell.script({"match": "Task a", "text": "No."}, {"match": "Task b", "text": "", "delay_ms": NEVER_MS})
    # A short name: the sandbox tries itself out there, with sockets.
    places = Path(tempfile.mkdtemp())
    with shell.start("eval", "suite", "-m", model, stderr=subprocess.STDOUT, env={"TMPDIR": str(places)}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"wrong     a"), line + process.stdout.read()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, out
    assert b"stopped after 1 of 2 runs: the same command goes on" in out
    assert not list(places.glob("tertulia-eval-*"))
    shutil.rmtree(places)
    results = shell.folder / "eval-suite.jsonl"
    assert [one.task for one in read_results(results)] == ["a"]
    ran = shell.run("eval", "suite", "-m", shell.script(_shell("Task b", _MEND), "Done."))
    assert (ran.code, "1 of 2 runs are there already" in ran.err) == (0, True), ran.err
    assert [one.outcome for one in read_results(results)] == ["wrong", "passed"]


def test_a_budget_of_tokens_ends_a_run_in_its_middle(shell: Shell) -> None:
    _suite(shell, "a", "b")
    model = shell.script(_shell("Task", "true"), "Done.", repeat=True)
    ran = shell.run("eval", "suite", "-m", model, "--max-tokens", "10")
    assert ran.code == 1
    assert "the budget is used up after 0 of 2 runs" in ran.err
    assert [one.outcome for one in read_results(shell.folder / "eval-suite.jsonl")] == ["budget"]


@each_row(
    "arguments, expected",
    [
        (["nothing"], "there is no such folder"),
        (["suite", "-s", "danger-full-access"], "could read the checks"),
        (["suite", "--max-cost", "1"], "--max-cost needs the price of its model"),
        (["suite", "--max-cost", "-1"], "must be a positive number of US dollars"),
        (["suite", "--only", "x"], "there is no task or kind 'x'"),
        (["suite", "--vary", "no_such_setting=1"], "no_such_setting"),
        (["suite", "--agent", "nobody"], "nobody"),
        (["suite", "--out", "suite"], "suite"),
        (["report", "script.json"], "script.json"),
        (["compare", "a", "b"], "a: cannot be read"),
        (["import", "script.json", "--repo", "nowhere", "--into", "x"], "script.json"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_run(arguments: list[str], expected: str, shell: Shell) -> None:
    if not (shell.folder / "suite").exists():
        _suite(shell, "a")
    model = shell.script("Done.", repeat=True)
    before = sorted(path.name for path in shell.folder.iterdir())
    own = ["-m", model] if arguments[0] == "suite" and "--agent" not in arguments else []
    ran = shell.run("eval", *arguments, *own)
    assert ran.code == 2, ran.err
    assert expected in ran.err
    assert sorted(path.name for path in shell.folder.iterdir()) == before


def test_the_self_test_names_checks_that_cannot_tell(shell: Shell) -> None:
    suite = _suite(shell, "good")
    write_task(suite, "lenient", check="import calc\n")
    ran = shell.run("eval", "check", "suite")
    assert ran.code == 1
    assert "lenient  always passes" in ran.out
    assert "1 of 2 checks are sound" in ran.out
    assert shell.run("eval", "check", "suite", "--only", "good").code == 0


def test_every_part_of_the_verb_has_help_with_examples(shell: Shell) -> None:
    for words in ((), ("check",), ("compare",), ("import",), ("report",)):
        ran = shell.run("eval", *words, "--help")
        assert (ran.code, f"  {' '.join(('tertulia', 'eval', *words))}" in ran.out.partition("Examples:")[2]) == (
            0,
            True,
        )


def test_an_instance_file_becomes_a_suite_with_sound_checks(shell: Shell) -> None:
    repo = shell.folder / "repo"
    (repo / "tests").mkdir(parents=True)
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (repo / "tests" / "__init__.py").write_text("")
    (repo / "tests" / "test_calc.py").write_text(_TESTS)
    # An archive would leave them out.
    (repo / ".gitattributes").write_text("tests export-ignore\n")
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    instance = {
        "instance_id": "x__calc-1",
        "repo": "x/calc",
        "base_commit": commit,
        "problem_statement": "add subtracts",
        "patch": _PATCH,
        "test_patch": _TEST_PATCH,
        "FAIL_TO_PASS": '["test_add (tests.test_calc.T)"]',
        "PASS_TO_PASS": ["test_zero (tests.test_calc.T)"],
        "created_at": "ignored",
    }
    (shell.folder / "instances.jsonl").write_text(json.dumps(instance) + "\n")
    words = ("instances.jsonl", "--repo", "x/calc=repo", "--into", "made", "--test-command", "python3 -m unittest -q")
    assert shell.run("eval", "import", *words).out == "1 task in made\n"
    assert shell.run("eval", "check", "made").out == "1 of 1 checks are sound\n"
    assert not (shell.folder / "made" / "x__calc-1" / "repo" / ".git").exists()
    assert "is there already" in shell.run("eval", "import", *words).err
    (shell.folder / "instances.jsonl").write_text(json.dumps({**instance, "base_commit": "--output=x"}))
    assert "instance 1: base_commit: '--output=x' is not the hash" in shell.run("eval", "import", *words).err


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_run(shell: Shell) -> None:
    _suite(shell, "a")
    ran = shell.run("eval", "suite", "-m", shell.script("Done."), "--html", "nowhere/page.html")
    assert (ran.code, "is no folder that can be written" in ran.err) == (2, True)
    assert not (shell.folder / "eval-suite.jsonl").exists()
