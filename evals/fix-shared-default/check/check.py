from eval_run import run_tests
from notes import Note, copy_note

Note("one").tag("red")
assert Note("two").tags == [], "a new note has the tags of another one"
first = Note("three", ["x"])
second = copy_note(first)
second.tag("y")
assert first.tags == ["x"], "a copy shares its tags"
tags = ["z"]
Note("four", tags).tag("w")
assert tags == ["z"], "the list of the caller was changed"
assert second.tags == ["x", "y"]
run_tests("test_notes")
