"""Issue 24, 6: old outputs of tools are reduced to their beginning and end before anything is summarised."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.history.compaction import NO_LONG_OUTPUTS, droppable_tokens, shorten_outputs
from tertulia.history.shortening import RECENT_OUTPUTS, SHORT_OUTPUT_BYTES, shortened
from tertulia.protocol.items import ImagePart, Item, TextPart, ToolOutput
from tests.history.items import CountingEncoder, call, model, output, store_of, user

LONG = "begin" + "é" * 5_000 + "end"


def turns(count: int, text: str = LONG) -> list[list[Item]]:
    """A request, and turns with a call each, whose output is this text."""
    return [[user("look")]] + [part for n in range(count) for part in ([call(f"c{n}")], [output(f"c{n}", text)])]


def test_old_outputs_keep_their_ends_and_the_newest_stay_whole() -> None:
    store = store_of(*turns(RECENT_OUTPUTS + 3))
    before, items = store.approx_tokens, list(store.snapshot())
    done = shorten_outputs(store)
    texts = [item.text for item in store.snapshot() if isinstance(item, ToolOutput)]
    assert (done.compacted, done.shortened_outputs, done.removed_items) == (True, 3, 0)
    assert texts[3:] == [LONG] * RECENT_OUTPUTS
    assert all(
        text.startswith("begin") and text.endswith("end") and "10,008 bytes in all" in text for text in texts[:3]
    )
    assert all(len(text.encode()) <= SHORT_OUTPUT_BYTES for text in texts[:3])
    assert done.after_tokens == store.approx_tokens < done.before_tokens == before
    assert [item.id for item in store.snapshot()] == [item.id for item in items]


def test_a_history_without_long_old_outputs_is_left_as_it_is() -> None:
    store = store_of(*turns(RECENT_OUTPUTS), [model(LONG)], *turns(3, "short")[1:])
    before = (list(store.snapshot()), store.revision)
    done = shorten_outputs(store_of(*turns(RECENT_OUTPUTS)))
    assert (done.compacted, done.reason) == (False, NO_LONG_OUTPUTS)
    assert (list(store.snapshot()), store.revision) == before


def test_nothing_but_what_changed_is_encoded_again_and_the_bytes_are_those_of_the_items() -> None:
    store, encoder = store_of(*turns(RECENT_OUTPUTS + 2)), CountingEncoder()
    store.encoded(encoder)
    before = sum(encoder.encoded.values())
    (rewrite,) = shorten_outputs(store).rewrites
    joined = b",".join(store.encoded(encoder))
    assert sum(encoder.encoded.values()) - before == 2
    assert joined == b",".join(store_of(*[segment.items for segment in store.snapshot().segments()]).encoded(encoder))
    assert (rewrite.shortened, rewrite.shortened_to, rewrite.end) == ((2, 4), SHORT_OUTPUT_BYTES, 0)


def test_pictures_of_old_outputs_go_and_what_is_no_output_stays() -> None:
    picture = ImagePart("data:image/png;base64,AAAA")
    seen = replace(output("a"), parts=(TextPart("short"), picture))
    bare = replace(output("b"), parts=(picture,))
    request = user(LONG)
    (first, second, third) = shortened([seen, bare, request], SHORT_OUTPUT_BYTES)
    assert isinstance(first, ToolOutput)
    assert isinstance(second, ToolOutput)
    assert first.text == "short[a picture was removed to make room]"
    assert second.text == "[a picture was removed to make room]"
    assert third is request


def test_the_same_items_always_give_the_same_result() -> None:
    items = [output("a", LONG), output("b", "x" * SHORT_OUTPUT_BYTES)]
    once = shortened(items, SHORT_OUTPUT_BYTES)
    assert once == shortened(items, SHORT_OUTPUT_BYTES) == shortened(once, SHORT_OUTPUT_BYTES)
    assert once[1] is items[1]


def test_how_much_a_cut_would_drop_leaves_out_the_newest_request() -> None:
    """A message as long as the window is not worth a summary of the few words before it."""
    short = store_of([user("hi")], [model("hello")], [user(LONG)])
    assert droppable_tokens(short) < 5
    assert droppable_tokens(store_of([user(LONG)])) == 0
    assert droppable_tokens(store_of(*turns(3), [user("more")])) > 7_000
