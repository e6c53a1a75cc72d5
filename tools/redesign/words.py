"""words.py ROOT MAPS...: rename parts of identifiers everywhere in code: `word<TAB>talk<TAB>conversation` turns talk, _talk, find_talk."""
import ast, io, re, sys, tokenize
from pathlib import Path
root = Path(sys.argv[1]); words = {}
for m in sys.argv[2:]:
    for line in Path(m).read_text().splitlines():
        if line.startswith("word\t"):
            _, o, n = line.split("\t")[:3]; words[o.strip()] = n.strip()
def new_token(t):
    if t.isupper() and len(t) > 1:
        parts = t.split("_"); out = [words[p.lower()].upper() if p.lower() in words else p for p in parts]
    else:
        parts = t.split("_"); out = [words.get(p, p) for p in parts]
    return "_".join(out)
def run(path):
    text = path.read_text(); notes = []
    toks = list(tokenize.generate_tokens(io.StringIO(text).readline))
    lines = text.splitlines(keepends=True); edits = []
    names = {t.string for t in toks if t.type == tokenize.NAME}
    imported = set()
    tree = ast.parse(text)
    for n in ast.walk(tree):
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            for a in n.names: imported |= set(re.findall(r"\w+", a.name))
            if isinstance(n, ast.ImportFrom) and n.module: imported |= set(n.module.split("."))
    funcs = [(n.lineno, n.end_lineno, {x.id for x in ast.walk(n) if isinstance(x, ast.Name)} | {x.arg for x in ast.walk(n) if isinstance(x, ast.arg)}) for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    prev = None
    for t in toks:
        if t.type == tokenize.NAME:
            new = new_token(t.string)
            if new != t.string and not (prev and prev.string in ("import", "from", ".") and t.line.lstrip().startswith(("from", "import"))):
                edits.append((t.start, t.end, new))
                if not (prev and prev.string == "."):
                    for a, b, used in funcs:
                        if a <= t.start[0] <= b and new in used: notes.append(f"VARCOLL {path.relative_to(root)}:{t.start[0]} {t.string} -> {new}"); break
        elif t.type == tokenize.STRING and t.string[:2].lower().startswith("f") or t.type == tokenize.STRING and t.string[:2].lower() == "rf":
            def hole(m):
                return re.sub(r"[A-Za-z_]\w*", lambda w: new_token(w.group(0)), m.group(0)) if not re.search(r"['\"]", m.group(0)) else m.group(0)
            new = re.sub(r"(?<!\{)\{[^{}]+\}(?!\})", hole, t.string)
            if new != t.string: edits.append((t.start, t.end, new))
        if t.type not in (tokenize.NL, tokenize.COMMENT): prev = t
    if not edits: return notes
    starts = [0]
    for l in lines: starts.append(starts[-1] + len(l))
    for (l1, c1), (l2, c2), new in sorted(edits, reverse=True):
        a, b = starts[l1 - 1] + c1, starts[l2 - 1] + c2
        text = text[:a] + new + text[b:]
    ast.parse(text)
    path.write_text(text)
    return notes
out = []
for top in ("src", "tests", "bench", "examples"):
    for p in sorted((root / top).rglob("*.py")):
        out += run(p)
print("\n".join(sorted(set(out)))); print(len(out), "collisions")
