from eval_run import conversations, workspace

titles = {title for title, answer in conversations if answer.strip()}
assert len(titles) >= 3, f"three conversations with titles of their own were wanted: {conversations}"
answers = [answer.strip().strip(".").lower() for _, answer in conversations]
lines = [
    line.strip().strip(".").lower() for line in (workspace / "answers.txt").read_text().split("\n") if line.strip()
]
assert lines == ["north", "south", "coast"], lines
assert {"north", "south", "coast"} <= set(answers), "a colleague did not answer with the word"
