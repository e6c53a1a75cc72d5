from eval_run import answer, changed_files

line = [line for line in answer.replace("`", "").replace("*", "").splitlines() if line.strip().startswith("CALLERS:")][
    -1
]
names = [name.strip().removesuffix("()") for name in line.split(":", 1)[1].split(",")]
assert names == ["buckets", "key_of", "put", "put_all"], names
assert not changed_files(), "something was changed"
