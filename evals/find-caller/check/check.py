from eval_run import answer, original, workspace

def files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found

line = [line for line in answer.replace("`", "").replace("*", "").splitlines() if line.strip().startswith("CALLERS:")][-1]
names = [name.strip().removesuffix("()") for name in line.split(":", 1)[1].split(",")]
assert names == ["buckets", "key_of", "put", "put_all"], names
assert files(workspace) == files(original), "something was changed"
