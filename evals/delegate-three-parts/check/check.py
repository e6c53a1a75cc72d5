from eval_run import conversations
from one import vowels
from three import invert
from two import chunks

assert len([answer for _, answer in conversations if answer.strip()]) >= 3, "fewer than three colleagues"
assert (vowels("Ana EIO u"), vowels("")) == (6, 0)
assert (list(chunks([1, 2, 3], 2)), list(chunks([], 2))) == ([[1, 2], [3]], [])
assert invert({"a": 1, "b": 2, "c": 1}) == {1: ["a", "c"], 2: ["b"]}
