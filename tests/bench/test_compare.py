"""`tertulia bench compare`: its arithmetic, its referee with small peers of our own, and its report.

The peers run in the environment of the tests: nothing is installed, and only the loopback is reached.
"""

from __future__ import annotations

import json
import sys
import textwrap
import tomllib
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench.compare import main, referee
from bench.compare.dialects import ANSWER, DIALECTS
from bench.compare.environments import InstallError, PeerEnvironment
from bench.compare.html_report import html_report
from bench.compare.peer_process import failure_sentence, peer_variables
from bench.compare.peers import LEAST, PEERS, PeerSpec
from bench.compare.referee import Plan, Referee
from bench.compare.results import ONCE, Cell, Comparison, Samples, Spread
from bench.compare.show import cell_text, table_lines
from bench.compare.works import WORKS, Metric, Work

# A peer of the standard library alone.
PROGRAM = """
import asyncio, json, urllib.request
from peer_protocol import Peer, NoSuchFeatureError, serve

class Program(Peer):
    async def conversation(self, kind):
        {conversation}
        return []

    async def turn(self, history, text):
        {turn}
        history.append({{"role": "user", "content": text}})
        body = json.dumps({{"messages": history}}).encode()
        request = urllib.request.Request(self.url + "/v1/chat/completions", body)
        answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
        history.append(answer)
        return answer["content"]

if __name__ == "__main__":
    serve(Program)
"""
CPU = Metric("CPU", "ms CPU")
TINY_TURNS = {"marks": [2, 4], "window": 1, "budget_s": 60}


def peer(folder: Path, name: str, *, conversation: str = "pass", turn: str = "pass") -> PeerSpec:
    """A peer whose program does these things first."""
    (folder / name).mkdir()
    (folder / name / "program.py").write_text(textwrap.dedent(PROGRAM).format(conversation=conversation, turn=turn))
    return PeerSpec(name, name.title(), "none", "import json", folder=str(folder / name))


def work(id: str, sizes: dict[str, object]) -> Work:
    found = next(work for work in WORKS if work.id == id)
    return Work(id, found.title, found.description, found.metrics, sizes, sizes)


def prepare(spec: PeerSpec) -> PeerEnvironment:
    if spec.name == "absent":
        raise InstallError("It could not be installed: there is no such package.")
    return PeerEnvironment(Path(sys.executable), spec.path, "1.0", 0)


def compare(peers: list[PeerSpec], works: list[Work], rounds: int = 1) -> Comparison:
    return Referee(Plan(peers, works, rounds, True, prepare), lambda *_: None).run()


# ---- arithmetic


def test_a_ratio_is_taken_within_a_round_and_the_median_of_ratios_is_given() -> None:
    samples = Samples()
    for number, (least, other) in enumerate([(1.0, 2.0), (10.0, 30.0), (2.0, 10.0)]):
        samples.add(LEAST, number, {"CPU": least})
        samples.add("other", number, {"CPU": other})
    cell = samples.cell("other", CPU, LEAST)
    assert cell == Cell(Spread(10.0, 2.0, 30.0), Spread(3.0, 2.0, 5.0))
    assert samples.cell(LEAST, CPU, LEAST).ratio == Spread(1.0, 1.0, 1.0)


def test_there_is_no_ratio_to_nothing_and_none_of_a_count() -> None:
    samples = Samples()
    samples.add(LEAST, 0, {"CPU": 0.0, "servers": 1.0})
    samples.add("other", 0, {"CPU": 2.0, "servers": 3.0})
    assert samples.cell("other", CPU, LEAST) == Cell(Spread(2.0, 2.0, 2.0))
    assert samples.cell("other", Metric("servers", "", is_ratio=False), LEAST) == Cell(Spread(3.0, 3.0, 3.0))


def test_a_round_without_the_least_gives_a_value_and_no_ratio() -> None:
    samples = Samples()
    samples.add(LEAST, 0, {"CPU": 1.0})
    samples.add("other", 0, {"CPU": 4.0})
    samples.add("other", 1, {"CPU": 6.0})
    assert samples.cell("other", CPU, LEAST) == Cell(Spread(5.0, 4.0, 6.0), Spread(4.0, 4.0, 4.0))


def test_a_cell_without_a_value_says_why() -> None:
    samples = Samples(notes={"broken": "It failed: no."})
    samples.add("slow", 0, {"turn 10": 1.0, "stopped at turn": 640})
    assert samples.cell("broken", CPU, LEAST).note == "It failed: no."
    assert samples.cell("slow", Metric("turn 1,000", "ms"), LEAST).note == "The time was over at turn 640."
    assert samples.cell("other", CPU, LEAST).note == "not measured"
    assert cell_text(Cell(note="no such feature: it has none"), CPU) == "no such feature"


def test_a_failure_is_told_by_the_exception() -> None:
    trace = 'Traceback (most recent call last):\n  File "x"\nValueError: no such model\nWARNING: closing\n'
    assert failure_sentence(trace, 1) == "It failed: ValueError: no such model"
    assert failure_sentence("killed\n", -9) == "It failed: killed"
    assert failure_sentence("", 3) == "It failed: exit code 3"


# ---- the referee


def test_peers_are_measured_and_those_that_cannot_be_say_why(tmp_path: Path) -> None:
    peers = [
        peer(tmp_path, LEAST),
        peer(tmp_path, "heavy", turn="sum(range(3_000_000))"),
        peer(tmp_path, "poor", conversation="raise NoSuchFeatureError('it has no conversations')"),
        peer(tmp_path, "broken", turn="raise ValueError('no such model')"),
        peer(tmp_path, "nosy", conversation="urllib.request.urlopen('http://192.0.2.1/')"),
        peer(tmp_path, "caught", turn=LOOK_UP),
        peer(tmp_path, "liar", turn="return 'something else'"),
    ]
    (tmp_path / "absent").mkdir()
    peers.append(PeerSpec("absent", "Absent", "none", "", folder=str(tmp_path / "absent")))
    found = compare(peers, [work("W1", TINY_TURNS)], rounds=2)
    (table,) = found.works
    assert [metric.name for metric in table.metrics] == ["turn 2", "turn 4"]
    heavy = table.cells["heavy"]["turn 4"]
    assert heavy.ratio is not None
    assert heavy.ratio.low > 2
    notes = {name: cells["turn 2"].note for name, cells in table.cells.items() if cells["turn 2"].note}
    assert notes["poor"] == "no such feature: it has no conversations"
    assert notes["broken"] == "It failed: ValueError: no such model"
    assert "403" in notes["nosy"]
    assert notes["caught"] == "It tried to reach example.org: peers may use the loopback only."
    assert "something else" in notes["liar"]
    assert notes["absent"] == "It could not be installed: there is no such package."
    assert set(notes) == {"poor", "broken", "nosy", "caught", "liar", "absent"}


LOOK_UP = """try:
            import socket; socket.create_connection(("example.org", 443))
        except OSError:
            pass"""


def test_each_work_gives_its_figures(tmp_path: Path) -> None:
    works = [
        work("W2", {"count": 3}),
        work("W4", {"times": 1}),
    ]
    found = compare([peer(tmp_path, LEAST), peer(tmp_path, "other")], works)
    conversations, installation = found.works
    assert conversations.cells["other"]["CPU"].value is not None
    assert conversations.cells["other"]["memory"].value is not None
    assert installation.cells["other"]["dependencies"].value == Spread(0.0, 0.0, 0.0)


def test_a_peer_that_runs_out_of_time_gives_what_it_has(tmp_path: Path) -> None:
    sizes = {"marks": [2, 1_000_000], "window": 1, "budget_s": 0.2}
    found = compare([peer(tmp_path, LEAST)], [work("W1", sizes)])
    cells = found.works[0].cells[LEAST]
    assert cells["turn 1,000,000"].note.startswith("The time was over at turn ")


def test_what_takes_long_is_measured_once_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of all peers ends within about an hour, and hides nothing for it."""
    monkeypatch.setattr(referee, "LONG_S", 0.0)
    found_w1, found_w2 = work("W1", TINY_TURNS), work("W2", {"count": 2})
    works = [replace(found_w1, again={**TINY_TURNS, "marks": [2]}), found_w2]
    found = compare([peer(tmp_path, LEAST), peer(tmp_path, "other")], works, rounds=3)
    turns, conversations = (table.cells["other"] for table in found.works)
    assert (turns["turn 2"].note, turns["turn 4"].note, conversations["CPU"].note) == ("", ONCE, ONCE)
    assert turns["turn 4"].value is not None
    assert any(ONCE in line for line in table_lines(found))
    assert ONCE in html_report(found)
    assert ONCE in json.dumps(found.to_json())


def test_a_run_that_is_stopped_gives_what_it_has(tmp_path: Path) -> None:
    peers = [peer(tmp_path, LEAST), peer(tmp_path, "other")]

    def stop_in_the_second_round(done: int, whole: int, text: str) -> None:
        if text.endswith("round 2 of 3"):
            raise KeyboardInterrupt

    plan = Plan(peers, [work("W1", TINY_TURNS)], 3, True, prepare)
    found = Referee(plan, stop_in_the_second_round).run()
    assert found.works[0].cells["other"]["turn 2"].value is not None
    assert found.to_json()["stopped"] is True
    assert next(iter(table_lines(found))).startswith("Medians of 3 rounds, stopped before all was measured;")


def test_a_run_that_dies_leaves_in_its_files_what_was_measured(tmp_path: Path) -> None:
    """Written after each work, not at the end of hours; and to look at it changes nothing of what follows."""
    program = replace(peer(tmp_path, "program"), npm=True)
    peers = [peer(tmp_path, LEAST), program]
    written = partial(main.write_files, json_file=tmp_path / "found.json", html_file=tmp_path / "found.html")
    plan = Plan(peers, [work("W4", {"times": 1}), work("W1", TINY_TURNS)], 2, True, prepare)

    class MachineDiesError(Exception):
        pass

    def die_late(done: int, whole: int, text: str) -> None:
        if text.startswith("W1") and text.endswith("round 2 of 2"):
            raise MachineDiesError

    with pytest.raises(MachineDiesError):
        Referee(plan, die_late, written).run()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["stopped"] is True
    cells = {metric["name"]: metric["peers"] for table in found["works"] for metric in table["metrics"]}
    assert cells["installed"]["program"]["value"]["median"] >= 0
    assert "cannot be imported" in cells["import"]["program"]["note"]
    assert cells["turn 4"][LEAST]["value"]["median"] > 0
    assert (tmp_path / "found.html").read_text().startswith("<!")
    assert not list(tmp_path.glob("*.new"))


def test_a_peer_gets_nothing_of_the_users_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    environment = PeerEnvironment(Path(sys.executable), tmp_path, "1", 0)
    variables = peer_variables("http://127.0.0.1:9", tmp_path, environment)
    assert "SOME_KEY" not in variables
    assert variables["OPENAI_API_KEY"] == "none"
    assert variables["HTTPS_PROXY"] == variables["https_proxy"] == "http://127.0.0.1:9"


def test_a_report_that_is_no_json_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "garbled").mkdir()
    (tmp_path / "garbled" / "program.py").write_text("print('hello')")
    garbled = PeerSpec("garbled", "Garbled", "none", "", folder=str(tmp_path / "garbled"))
    found = compare([garbled], [work("W2", {"count": 1})])
    assert found.works[0].cells["garbled"]["CPU"].note == "It failed: its report is no JSON: 'hello\\n'"


def test_a_tool_that_failed_gives_no_figure(tmp_path: Path) -> None:
    answers = 'return "It is as " + text if text.startswith("@call") else ""'
    found = compare([peer(tmp_path, "idle", turn=answers)], [work("W5", {"times": 1})])
    assert "the tool did not answer" in found.works[0].cells["idle"]["CPU"].note


# ---- the provider


def test_every_dialect_says_the_same(subtests: pytest.Subtests) -> None:
    call = ("call_1", "echo", '{"text": "x"}')
    for path, dialect in DIALECTS.items():
        with subtests.test(path):
            assert ANSWER in json.dumps(dialect.whole([]))
            assert ANSWER.encode() in b"".join(dialect.events([]))
            assert "echo" in json.dumps(dialect.whole([call]))
            assert b"echo" in b"".join(dialect.events([call]))


# ---- the report


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("peers")
    broken = peer(folder, "broken", turn="raise ValueError('<script>')")
    return compare(
        [peer(folder, LEAST), peer(folder, "other"), broken], [work("W1", TINY_TURNS), work("W2", {"count": 1})]
    )


def test_the_report_is_one_page_that_needs_nothing_else(comparison: Comparison) -> None:
    text = html_report(comparison)
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert {"svg", "table", "path", "rect"} <= set(page.tags)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in {"src", "href"}]
    assert "url(" not in text
    assert "&lt;script&gt;" in text


def test_the_table_has_a_line_for_every_peer_and_a_note_for_every_failure(comparison: Comparison) -> None:
    lines = list(table_lines(comparison))
    assert sum(line.strip().startswith("Other ") for line in lines) == 2
    assert sum("Broken: It failed: ValueError: <script>" in line for line in lines) == 2
    assert any("1.0× (1.0–1.0)" in line for line in lines)


def test_the_json_has_everything_that_was_measured(comparison: Comparison) -> None:
    written = json.loads(json.dumps(comparison.to_json()))
    assert written["ratios_to"] == LEAST
    (turns, _) = written["works"]
    cell = turns["metrics"][0]["peers"]["other"]
    assert cell["value"]["low"] <= cell["value"]["median"] <= cell["value"]["high"]
    assert turns["metrics"][0]["peers"]["broken"] == {"note": "It failed: ValueError: <script>"}


# ---- the repository and the terminal


def test_every_peer_has_a_program_and_locked_requirements(subtests: pytest.Subtests) -> None:
    for spec in PEERS:
        with subtests.test(spec.name):
            assert (spec.path / "program.py").is_file()
            lock = spec.path / ("package-lock.json" if spec.npm else "requirements.lock")
            text = lock.read_text()
            assert "http://" not in text.replace("http://127.0.0.1", "")
            assert spec.npm or (spec.checkout or f"{spec.package}==" in text)
            assert spec.npm or text.count("--hash=sha256:") >= text.count("==")


def test_tertulia_is_installed_with_what_its_package_asks_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = {*project["dependencies"], *project["optional-dependencies"]["mcp"]}
    (spec,) = [spec for spec in PEERS if spec.name == "tertulia"]
    assert set((spec.path / "requirements.in").read_text().split()) == needed


def test_the_bar_is_rewritten_on_a_terminal_and_a_line_elsewhere() -> None:
    class Output:
        def __init__(self, *, rewritable: bool) -> None:
            self.rewritable = rewritable
            self.lines: list[str] = []

        def line(self, *pieces: str) -> None:
            self.lines.append("line " + "".join(pieces))

        def rewrite(self, *pieces: str) -> None:
            self.lines.append("rewrite " + "".join(pieces))

    terminal, pipe = Output(rewritable=True), Output(rewritable=False)
    main.progress_bar(terminal)(6, 12, "W1")
    main.progress_bar(pipe)(6, 12, "W1")
    assert terminal.lines == [f"rewrite [{'#' * 12}{'.' * 12}]   6 of 12  W1"]
    assert pipe.lines == ["line 7 of 12  W1"]


def test_environments_are_in_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main.cache_folder() == tmp_path / "tertulia" / "compare"
