"""A flat list of places becomes a tree: parents first, each place once, the stricter entry counts."""

from __future__ import annotations

from tertulia.sandbox.mounts.entries import MountEntry, MountNode, build_tree, decode_entries, encode_entries


def shape(node: MountNode) -> dict[str, dict]:
    return {inner.name: shape(inner) for inner in node.below}


def test_what_is_told_is_what_is_read() -> None:
    entries = [MountEntry("/a", "seen", 1, 2, 0), MountEntry("/a/\udce4\n", "masked", 3, 4)]
    assert decode_entries(encode_entries(entries, ["/tmp"])) == (frozenset({"/tmp"}), entries)


def test_each_place_lies_in_the_nearest_that_holds_it() -> None:
    paths = ["/w/a/b/.git", "/w", "/w-other", "/w/a", "/tmp/x/y"]
    assert shape(build_tree([MountEntry(path, "pinned", 0, 0) for path in paths])) == {
        "tmp/x/y": {},
        "w": {"a": {"b/.git": {}}},
        "w-other": {},
    }


def test_of_two_wishes_for_one_place_the_stricter_counts() -> None:
    aside, closed = MountEntry("/w", "seen", 1, 2, 0), MountEntry("/w", "read_only", 1, 2)
    for entries in ([aside, closed], [closed, aside]):
        (node,) = build_tree(entries).below
        assert node.entry == MountEntry("/w", "read_only", 1, 2, 0)
        assert node.leads_to_staged
    above = build_tree(
        [MountEntry("/", "seen", 0, 0), MountEntry("/m", "masked", 0, 0), MountEntry("/m/w", "seen", 1, 2, 0)]
    )
    assert [node.leads_to_staged for node in above.below] == [True]
