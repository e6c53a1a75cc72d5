"""Layers of settings and where each value came from."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.policy.limits import Limits
from tertulia.session.settings.layers import SettingLayers


def test_the_later_layer_wins() -> None:
    layers = SettingLayers()
    layers.add("sandbox", "read-only", "file")
    layers.add("sandbox", "workspace-write", "flag --sandbox")
    assert layers.values == {"sandbox": "workspace-write"}
    assert layers.provenance(("sandbox",))["sandbox"] == "flag --sandbox"


def test_tables_are_merged_entry_by_entry_and_never_changed_in_place() -> None:
    layers = SettingLayers()
    first = {"fs": {"command": "a", "env": {"X": "1"}}}
    layers.add("mcp_servers", first, "file")
    layers.add("mcp_servers", {"fs": {"env": {"Y": "2"}}, "git": {"command": "g"}}, "-c")
    assert layers.values["mcp_servers"] == {
        "fs": {"command": "a", "env": {"X": "1", "Y": "2"}},
        "git": {"command": "g"},
    }
    assert first == {"fs": {"command": "a", "env": {"X": "1"}}}
    assert (
        layers.provenance(()).items()
        >= {
            "mcp_servers.fs.command": "file",
            "mcp_servers.fs.env.X": "file",
            "mcp_servers.fs.env.Y": "-c",
            "mcp_servers.git.command": "-c",
        }.items()
    )


def test_a_policy_is_replaced_whole_even_where_it_is_written_as_a_table() -> None:
    layers = SettingLayers()
    layers.add("storage_policy", {"ttl": 5}, "file")
    layers.add("storage_policy", "full", "-c")
    assert layers.values == {"storage_policy": "full"}
    assert layers.provenance(("storage_policy",))["storage_policy"] == "-c"


def test_what_nobody_set_is_a_default_and_every_limit_is_listed() -> None:
    layers = SettingLayers()
    layers.add("limits", {"mcp_wait_s": 5}, "file")
    provenance = layers.provenance(("model", "limits"))
    assert provenance == {
        "model": "default",
        **{f"limits.{name}": "file" if name == "mcp_wait_s" else "default" for name in Limits.__struct_fields__},
    }
    assert list(provenance) == sorted(provenance)


def test_a_refusal_names_its_source_and_leaves_what_was_there() -> None:
    layers = SettingLayers()
    layers.add("sandbox", "read-only", "file")
    before = (dict(layers.values), layers.provenance(("sandbox",)))
    with pytest.raises(InvalidParamsError, match="flag --sandbox: sandbox must be one of"):
        layers.add("sandbox", "nothing", "flag --sandbox")
    assert (layers.values, layers.provenance(("sandbox",))) == before


def test_a_part_of_a_table_is_checked_together_with_the_rest_of_it() -> None:
    layers = SettingLayers()
    layers.add("model_providers", {"p": {"base_url": "http://x", "wire": "chat"}}, "file")
    layers.add("model_providers", {"p": {"env_key": "KEY"}}, "-c")
    assert layers.values["model_providers"]["p"] == {"base_url": "http://x", "wire": "chat", "env_key": "KEY"}
    with pytest.raises(InvalidParamsError, match=r"-c: model_providers\.q"):
        layers.add("model_providers", {"q": {"env_key": "KEY"}}, "-c")
