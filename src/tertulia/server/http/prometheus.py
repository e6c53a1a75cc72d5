"""What the sessions of this process do, as Prometheus reads it at `/metrics`.

Numbers only. A label is a word of ours or the name of a tool that there is; ids, titles and texts never are, because
each would be a series of its own and a text that may not be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from tertulia.events.metrics import CallTotals, MetricsTotals
from tertulia.session.host import Host

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class HostMetrics(Collector):
    """All series of a host. Nothing is kept: each reading adds up what the sessions count anyway."""

    def __init__(self, host: Host, clients: Callable[[], int]) -> None:
        """`clients`: how many are connected."""
        self._host = host
        self._clients = clients
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        # CPU time, memory, descriptors and start of the process; the version of Python.
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self) -> bytes:
        """All series as they are now."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The series that are ours."""
        host, totals = self._host, self._host.services.totals()
        sessions = [session for session in host.sessions if not session.closed]
        yield _gauge("sessions", "Sessions that run in this process", len(sessions))
        yield _gauge("clients", "WebSocket clients that are connected", self._clients())
        yield _gauge("conversations", "Open conversations", sum(session.activity.conversations for session in sessions))
        yield _gauge("tasks_running", "Tasks that run now", sum(session.activity.running for session in sessions))
        yield _gauge(
            "questions_open",
            "Approvals and elicitations that wait for a person",
            sum(session.activity.questions for session in sessions),
        )
        yield _counter("sessions_started", "Sessions that were started or resumed", host.services.started)
        yield from _task_series(totals)
        yield from _model_series(totals)
        yield from _tool_series(totals.tools)
        yield from _mcp_series(totals)
        connections = "Connections of commands to hosts by name, by what became of them"
        yield _labelled("network_connections", connections, "verdict", totals.network)
        yield _counter("network_bytes", "Bytes that these connections sent and received", totals.network_bytes)


def _task_series(totals: MetricsTotals) -> Iterator[Metric]:
    yield _counter("tasks_started", "Tasks that have begun", totals.started)
    endings = {"completed": totals.completed, "failed": totals.failed, **totals.aborted}
    yield _labelled("tasks_ended", "Tasks that have ended, by how they ended", "ending", endings)
    yield _counter("compactions", "Histories that were compacted", totals.compactions)


def _model_series(totals: MetricsTotals) -> Iterator[Metric]:
    usage = totals.usage
    yield _counter("model_requests", "Requests to models that were answered", totals.requests)
    tokens = {
        "input": usage.input_tokens,
        "cached_input": usage.cached_input_tokens,
        "output": usage.output_tokens,
        "reasoning_output": usage.reasoning_output_tokens,
    }
    help = "Tokens of requests; input includes cached_input, output includes reasoning_output"
    yield _labelled("tokens", help, "kind", tokens)
    yield _counter("cost_usd", "US dollars, of the requests whose price is known", totals.cost_usd or 0.0)


def _tool_series(tools: Mapping[str, CallTotals]) -> Iterator[Metric]:
    calls, failures, seconds = "Tool calls that have ended", "Tool calls that failed", "Seconds that tool calls took"
    yield _labelled("tool_calls", calls, "tool", {name: total.calls for name, total in tools.items()})
    yield _labelled("tool_call_failures", failures, "tool", {name: total.failures for name, total in tools.items()})
    took = {name: total.duration_ms / 1000 for name, total in tools.items()}
    yield _labelled("tool_call_seconds", seconds, "tool", took)


def _mcp_series(totals: MetricsTotals) -> Iterator[Metric]:
    mcp = totals.mcp
    yield _counter("mcp_calls", "Calls to MCP servers that have ended", mcp.calls)
    yield _counter("mcp_call_failures", "Calls to MCP servers that failed", mcp.failures)
    yield _counter("mcp_call_seconds", "Seconds that calls to MCP servers took", mcp.duration_ms / 1000)
    yield _counter("mcp_waits", "Calls to MCP servers that waited for a free slot", totals.mcp_waits)
    yield _counter("mcp_wait_seconds", "Seconds that they waited", totals.mcp_waited_ms / 1000)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tertulia_{name}", help, value=value)


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(f"tertulia_{name}", help, value=value)


def _labelled(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"tertulia_{name}", help, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family
