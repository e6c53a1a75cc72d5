from eval_run import answer, original, workspace

def files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found

lines = [line.strip().strip("`*").replace("`", "") for line in answer.splitlines()]
assert "MOVE: format_money" in [line.removesuffix("()") for line in lines], answer
into = [line.split(":", 1)[1].strip() for line in lines if line.startswith("INTO:")]
assert into and into[-1].endswith(".py") and into[-1] not in ("orders.py", "customers.py"), into
assert files(workspace) == files(original)
