from eval_run import answer

line = [line for line in answer.replace("`", "").replace("*", "").splitlines() if line.strip().startswith("OUTPUT:")][
    -1
]
assert line.split(":", 1)[1].strip() == "ccc", line
assert len(answer.split()) > 15, "nothing was explained"
