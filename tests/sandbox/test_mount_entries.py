"""A flat list of places becomes a tree: parents first, each place once, the stricter wish counts."""

from __future__ import annotations

from tertulia.sandbox.mount_entries import Entry, Node, decode, encode, tree


def shape(node: Node) -> dict[str, dict]:
    return {inner.name: shape(inner) for inner in node.below}


def test_what_is_told_is_what_is_read() -> None:
    entries = [Entry("/a", "seen", 1, 2, 0), Entry("/a/\udce4\n", "masked", 3, 4)]
    assert decode(encode(entries, ["/tmp"])) == (frozenset({"/tmp"}), entries)


def test_each_place_lies_in_the_nearest_that_holds_it() -> None:
    paths = ["/w/a/b/.git", "/w", "/w-other", "/w/a", "/tmp/x/y"]
    assert shape(tree([Entry(path, "pinned", 0, 0) for path in paths])) == {
        "tmp/x/y": {},
        "w": {"a": {"b/.git": {}}},
        "w-other": {},
    }


def test_of_two_wishes_for_one_place_the_stricter_counts() -> None:
    aside, closed = Entry("/w", "seen", 1, 2, 0), Entry("/w", "read_only", 1, 2)
    for entries in ([aside, closed], [closed, aside]):
        (node,) = tree(entries).below
        assert node.entry == Entry("/w", "read_only", 1, 2, 0)
        assert node.leads_to_staged
    above = tree([Entry("/", "seen", 0, 0), Entry("/m", "masked", 0, 0), Entry("/m/w", "seen", 1, 2, 0)])
    assert [node.leads_to_staged for node in above.below] == [True]
