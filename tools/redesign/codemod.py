"""codemod.py ROOT MAPS... --stage S [--stage T]: carry out the rename and move map on a checkout."""
from __future__ import annotations
import argparse, ast, os, re, subprocess, sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

NOT_MODULES = {}

class Plan:
    def __init__(self, maps, stages):
        self.move, self.merge, self.names, self.members = {}, [], {}, {}
        for path in maps:
            for line in Path(path).read_text().splitlines():
                line = line.split("  #")[0].rstrip() if "\t" in line else line
                if not line.strip() or line.startswith("#"):
                    continue
                kind, module, *rest = [p.strip() for p in line.split("\t") if p.strip()]
                stage = module.split(".")[1] if "." in module else ""
                if stages and stage not in stages:
                    continue
                if kind == "module":
                    if rest[0] != module: self.move[module] = rest[0]
                elif kind == "merge":
                    self.move[module] = rest[0]; self.merge.append((module, rest[0]))
                elif kind == "name":
                    self.names[f"{module}.{rest[0]}"] = rest[1]
                elif kind == "member":
                    self.members[f"{module}.{rest[0]}"] = rest[1]
        self.reexports = {}
        self.modules = set()
        self.packages = {}

    def learn(self, root):
        for path in sorted((root / "src").rglob("*.py")):
            mod = module_of(root, path)
            self.modules.add(mod)
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tertulia"):
                    for a in node.names:
                        self.reexports[f"{mod}.{a.asname or a.name}"] = f"{node.module}.{a.name}"
            for node in tree.body:   # what is defined here wins
                for n in defined(node):
                    self.reexports.pop(f"{mod}.{n}", None)

    def resolve(self, q):
        seen = set()
        while q in self.reexports and q not in seen and q not in self.modules:
            seen.add(q); q = self.reexports[q]
        return q

    def new_name(self, q):
        """New last component of a qualified top-level name, or None."""
        return self.names.get(self.resolve(q))

    def new_module(self, m):
        if m in self.move: return self.move[m]
        for old, new in self.packages.items():
            if m == old or m.startswith(old + "."): return new + m[len(old):]
        return None

def defined(node):
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)): return [node.name]
    if isinstance(node, ast.Assign): return [t.id for t in node.targets if isinstance(t, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name): return [node.target.id]
    return []

def module_of(root, path):
    rel = path.relative_to(root)
    parts = list(rel.with_suffix("").parts)
    if parts[0] == "src": parts = parts[1:]
    if parts[-1] == "__init__": parts = parts[:-1]
    return ".".join(parts)

# ---- text

DOTTED = re.compile(r"\btertulia(?:\.[A-Za-z_]\w*)+")
FROM = re.compile(r"(\bfrom\s+)(tertulia(?:\.\w+)*)(\s+import\s+)(\([^)]*\)|[\w, ]+)")

def rewrite_text(plan, text):
    def dotted(m):
        parts = m.group(0).split(".")
        for n in range(len(parts), 0, -1):
            head = ".".join(parts[:n]); tail = parts[n:]
            if head in plan.modules or head in plan.packages:
                if tail:
                    new = plan.new_name(f"{head}.{tail[0]}")
                    if new: tail = [new, *tail[1:]]
                if plan.resolve(head) in plan.names:  # never
                    pass
                new_head = plan.new_module(head) or head
                return ".".join([new_head, *tail])
        # a prefix such as tertulia.tools.patch_
        return m.group(0)
    renamed = {}
    def imported(m):
        mod = m.group(2); names = m.group(4)
        words = [w.strip() for w in names.strip("() \n,").replace("\n", " ").split(",") if w.strip()]
        lines = defaultdict(list)
        for w in words:
            name, _, alias = w.partition(" as ")
            q = f"{mod}.{name}"
            if q in plan.modules and plan.new_module(q):
                pkg, base = plan.new_module(q).rsplit(".", 1)
                lines[pkg].append(base + (f" as {alias or name}" if (alias or name) != base else ""))
                continue
            new = plan.new_name(q)
            if new and not alias: renamed[name] = new
            lines[plan.new_module(mod) or mod].append((new or name) + (f" as {alias}" if alias else ""))
        if len(lines) == 1 and names.startswith("("):
            (target, got), = lines.items()
            for w, g in zip(words, got): names = re.sub(r"\b" + re.escape(w) + r"\b", g, names, count=1) if w != g else names
            return f"{m.group(1)}{target}{m.group(3)}{names}"
        tail = names[len(names.rstrip()):] if not names.startswith("(") else ""
        return "; ".join(f"{m.group(1)}{target}{m.group(3)}{', '.join(got)}" for target, got in lines.items()) + tail
    pieces, last = [], 0
    for m in FROM.finditer(text):
        pieces.append((False, paths(plan, DOTTED.sub(dotted, text[last:m.start()])))); pieces.append((True, imported(m))); last = m.end()
    pieces.append((False, paths(plan, DOTTED.sub(dotted, text[last:]))))
    def uses(t):
        for old, new in renamed.items(): t = re.sub(r"(?<![.\w'\"`])" + re.escape(old) + r"\b(?!\s*=[^=])", new, t)
        return t
    return "".join(t if is_import else uses(t) for is_import, t in pieces)

def rewrite_page(plan, text):
    """Each block of code by itself: what one imports means nothing in another."""
    return "".join(rewrite_text(plan, part) for part in re.split(r"(?=^```)", text, flags=re.M))

def paths(plan, text):
    for old, new in plan.path_pairs:
        if old in text:
            text = re.sub(r"(?<![\w/.-])((?:src/)?(?:tertulia/)?)" + re.escape(old) + r"(?![\w])", lambda m: m.group(1) + new, text)
    for old, new in plan.packages.items():
        o = old.split(".", 1)[1]; n = new.split(".", 1)[1]
        text = re.sub(r"\b(src/tertulia/)" + o + r"(?=/)", r"\g<1>" + n, text)
    return text

# ---- python

class Scope:
    def __init__(self, kind, parent): self.kind, self.parent, self.bound, self.globals = kind, parent, {}, set()

class Collector(ast.NodeVisitor):
    """Bindings of every scope, then every use resolved: edits are (line, col, end, text)."""

    def __init__(self, plan, mod):
        self.plan, self.mod, self.uses, self.defs, self.imports, self.fstrings = plan, mod, [], [], [], []
        self.scope = self.top = Scope("module", None)
        self.attrs = []
        self.patched, self.typed = [], []

    def bind(self, name, target=None):
        s = self.scope
        if name in s.globals: s = self.top
        if target is None and s is self.top: target = f"{self.mod}.{name}"
        old = s.bound.get(name)
        s.bound[name] = target if old is None or target is not None and target in self.plan.interesting else old or target
        if s is not self.top and name not in s.bound: s.bound[name] = None

    def within(self, kind, visit):
        self.scope = Scope(kind, self.scope)
        try: visit()
        finally: self.scope = self.scope.parent

    def visit_Import(self, node):
        self.imports.append(node)
        for a in node.names: self.bind(a.asname or a.name.split(".")[0], a.name if a.asname else a.name.split(".")[0])

    def visit_ImportFrom(self, node):
        self.imports.append(node)
        for a in node.names: self.bind(a.asname or a.name, f"{node.module}.{a.name}")

    def function(self, node):
        for d in node.decorator_list: self.visit(d)
        a = node.args
        for d in [*a.defaults, *[x for x in a.kw_defaults if x]]: self.visit(d)
        for p in [*a.posonlyargs, *a.args, *a.kwonlyargs, *[x for x in (a.vararg, a.kwarg) if x]]:
            if p.annotation: self.visit(p.annotation)
        if node.returns: self.visit(node.returns)
        self.defs.append((node, self.scope)); self.bind(node.name)
        def inner():
            for p in [*a.posonlyargs, *a.args, *a.kwonlyargs, *[x for x in (a.vararg, a.kwarg) if x]]: self.scope.bound[p.arg] = None
            for s in node.body: self.visit(s)
        self.within("function", inner)

    visit_FunctionDef = visit_AsyncFunctionDef = function

    def visit_Lambda(self, node):
        a = node.args
        for d in [*a.defaults, *[x for x in a.kw_defaults if x]]: self.visit(d)
        def inner():
            for p in [*a.posonlyargs, *a.args, *a.kwonlyargs, *[x for x in (a.vararg, a.kwarg) if x]]: self.scope.bound[p.arg] = None
            self.visit(node.body)
        self.within("function", inner)

    def visit_ClassDef(self, node):
        for d in [*node.decorator_list, *node.bases, *node.keywords]: self.visit(d)
        self.defs.append((node, self.scope)); self.bind(node.name)
        self.within("class", lambda: [self.visit(s) for s in node.body])

    def comprehension(self, node):
        self.visit(node.generators[0].iter)
        def inner():
            for i, g in enumerate(node.generators):
                self.visit(g.target)
                if i: self.visit(g.iter)
                for c in g.ifs: self.visit(c)
            if isinstance(node, ast.DictComp): self.visit(node.key); self.visit(node.value)
            else: self.visit(node.elt)
        self.within("function", inner)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_Global(self, node): self.scope.globals |= set(node.names)

    def visit_ExceptHandler(self, node):
        if node.type: self.visit(node.type)
        if node.name: self.bind(node.name)
        for s in node.body: self.visit(s)

    def visit_MatchAs(self, node):
        if node.name: self.bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node):
        if node.name: self.bind(node.name)

    def visit_Name(self, node):
        if isinstance(node.ctx, (ast.Store, ast.Del)): self.bind(node.id)
        self.uses.append((node, self.scope))

    def visit_Attribute(self, node):
        self.attrs.append((node, self.scope)); self.visit(node.value)

    def visit_JoinedStr(self, node):
        inner = len(self.uses), len(self.attrs)
        self.generic_visit(node)
        self.fstrings.append((node, self.uses[inner[0]:], self.attrs[inner[1]:]))
        del self.uses[inner[0]:], self.attrs[inner[1]:]

    def visit_Call(self, node):
        f = node.func
        name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
        if name in ("setattr", "delattr", "getattr", "patch_object") and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
            self.patched.append((node.args[0], node.args[1], self.scope))
        if name == "cast" and node.args and isinstance(node.args[0], ast.Constant): self.typed.append((node.args[0], self.scope))
        self.generic_visit(node)

    def visit_Subscript(self, node):
        for c in ast.walk(node.slice):
            if isinstance(c, ast.Constant) and isinstance(c.value, str) and re.fullmatch(r"[A-Z_]\w*", c.value): self.typed.append((c, self.scope))
        self.generic_visit(node)

    def find(self, name, scope):
        first = True
        while scope is not None:
            if name in scope.bound and (scope.kind != "class" or first): return scope.bound[name]
            first = False
            scope = scope.parent
        return None

def rename_of(plan, q, written):
    """What `written`, which means q, is called from now on; None where that does not change."""
    if q is None: return None
    r = plan.resolve(q)
    if r in plan.names and r.rsplit(".", 1)[1] == written: return plan.names[r]
    if q in plan.modules and q in plan.move and q.rsplit(".", 1)[1] == written:
        new = plan.move[q].rsplit(".", 1)[1]
        return new if new != written else None
    return None

def qualified(node, scope, c):
    if isinstance(node, ast.Name): return c.find(node.id, scope)
    if isinstance(node, ast.Attribute):
        head = qualified(node.value, scope, c)
        return f"{head}.{node.attr}" if head and head.startswith("tertulia") else None
    return None

def import_text(plan, node, notes):
    if isinstance(node, ast.Import):
        out = []
        for a in node.names:
            m = plan.new_module(a.name) if a.name.startswith("tertulia") else None
            if m: notes.append(f"import {a.name}")
            out.append((m or a.name) + (f" as {a.asname}" if a.asname else ""))
        return "import " + ", ".join(out)
    groups = defaultdict(list); changed = False
    for a in node.names:
        q = f"{node.module}.{a.name}"; alias = f" as {a.asname}" if a.asname else ""
        if q in plan.modules and plan.new_module(q):
            pkg, base = plan.new_module(q).rsplit(".", 1); groups[pkg].append(base + alias); changed = True; continue
        n = plan.new_name(q); m = plan.new_module(node.module) or node.module
        changed |= bool(n) or m != node.module
        if n and a.asname == a.name: alias = f" as {n}"
        groups[m].append((n or a.name) + alias)
    if not changed: return None
    sep = "\n" + " " * node.col_offset
    return sep.join(f"from {m} import {', '.join(names)}" if len(f"from {m} import {', '.join(names)}") + node.col_offset <= 120
                    else f"from {m} import ({', '.join(names)})" for m, names in groups.items())

def in_holes(text, names, attrs):
    out, depth, i, start = [], 0, 0, 0
    def swap(piece):
        for o, n in names.items(): piece = re.sub(r"(?<![.\w'\"])" + re.escape(o) + r"\b(?!\s*=[^=])", n, piece)
        for o, n in attrs.items(): piece = re.sub(r"(?<=\.)" + re.escape(o) + r"\b", n, piece)
        return piece
    while i < len(text):
        ch = text[i]
        if depth == 0 and text[i:i+2] in ("{{", "}}"): out.append(text[i:i+2]); i += 2; continue
        if ch == "{":
            if depth == 0: start = i
            depth += 1
        if depth == 0: out.append(ch)
        if ch == "}" and depth:
            depth -= 1
            if depth == 0: out.append(swap(text[start:i+1]))
        i += 1
    return "".join(out)

def work(args):
    import io, tokenize
    root, path = args
    plan, mod = PLAN, module_of(root, path)
    raw = path.read_bytes(); text = raw.decode(); notes = []
    tree = ast.parse(raw)
    c = Collector(plan, mod)
    for node in tree.body: c.visit(node)
    lines = raw.splitlines(keepends=True)
    edits = []   # (line, col, endline, endcol, bytes)
    local = {}   # what names of this file's top mean, where they change
    for name, q in c.top.bound.items():
        new = rename_of(plan, q, name)
        if new: local[name] = new
    for scope in {s for _, s in [*c.uses, *c.defs]}:
        for name, q in scope.bound.items():
            new = rename_of(plan, q, name)
            if new: local.setdefault(name, new)
    for node, scope in c.uses:
        new = rename_of(plan, c.find(node.id, scope), node.id)
        if new:
            edits.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, new))
            s = scope
            while s is not None:
                if new in s.bound and s.bound[new] not in (plan.reexports.get("x"),) and (s.bound[new] or "").rsplit(".",1)[-1] == new and rename_of(plan, s.bound[new], new) is None:
                    notes.append(f"COLLISION {path.name}:{node.lineno} {node.id} -> {new} is bound here already")
                    break
                if new in s.bound and s.bound[new] is None: notes.append(f"SHADOW {path.name}:{node.lineno} {node.id} -> {new}"); break
                s = s.parent
    for node, scope in c.attrs:
        new = rename_of(plan, qualified(node, scope, c), node.attr)
        if new: edits.append((node.end_lineno, node.end_col_offset - len(node.attr.encode()), node.end_lineno, node.end_col_offset, new))
    for node, scope in c.defs:
        if scope is not c.top: continue
        new = plan.names.get(f"{mod}.{node.name}")
        if new:
            line = lines[node.lineno - 1]
            at = re.compile(rb"(?:class|def)\s+" + node.name.encode() + rb"\b").search(line, node.col_offset)
            edits.append((node.lineno, at.end() - len(node.name.encode()), node.lineno, at.end(), new))
    for node in c.imports:
        t = import_text(plan, node, notes) if isinstance(node, ast.Import) or node.module else None
        if t is not None: edits.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, t))
    for module, const, scope in c.patched:
        q = qualified(module, scope, c)
        if q and q in plan.modules:
            new = plan.new_name(f"{q}.{const.value}")
            if new: edits.append((const.lineno, const.col_offset, const.end_lineno, const.end_col_offset, f'"{new}"'))
    taken = {(e[0], e[1]) for e in edits}
    for const, scope in c.typed:
        def type_name(m):
            return rename_of(plan, c.find(m.group(0), scope), m.group(0)) or m.group(0)
        new = re.sub(r"(?<![.\w])[A-Za-z_]\w*", type_name, const.value)
        if new != const.value and (const.lineno, const.col_offset) not in taken: edits.append((const.lineno, const.col_offset, const.end_lineno, const.end_col_offset, f'"{new}"')); taken.add((const.lineno, const.col_offset))
    def prose(t):
        if "`" in t:
            for old, new in local.items():
                after = r"(?=[`(.])" if old.lstrip("_")[:1].isupper() else r"(?=\()"
                t = re.sub(r"`" + re.escape(old) + after, "`" + new, t)
        return t
    for tok in tokenize.generate_tokens(io.StringIO(text).readline):
        if tok.type not in (tokenize.STRING, tokenize.COMMENT): continue
        new = prose(rewrite_text(plan, tok.string))
        if tok.type == tokenize.STRING:
            for node, uses, attrs in c.fstrings:
                if (node.lineno, node.col_offset) <= (tok.start[0], len(tok.line.split("\n")[0][:tok.start[1]].encode()) if tok.start[0] == tok.end[0] else tok.start[1]) and tok.end <= (node.end_lineno, node.end_col_offset + 10_000 * (node.end_lineno != tok.end[0])):
                    changes = {n.id: rename_of(plan, c.find(n.id, sc), n.id) for n, sc in uses}
                    dotted_changes = {n.attr: rename_of(plan, qualified(n, sc, c), n.attr) for n, sc in attrs}
                    changes = {o: n for o, n in changes.items() if n}; dotted_changes = {o: n for o, n in dotted_changes.items() if n}
                    if changes or dotted_changes: new = in_holes(new, changes, dotted_changes)
        if new != tok.string:
            (l1, c1), (l2, c2) = tok.start, tok.end
            b1 = len(tok.line.split("\n")[0][:c1].encode()) if l1 == l2 else len(text.splitlines(keepends=True)[l1 - 1][:c1].encode())
            b2 = len(text.splitlines(keepends=True)[l2 - 1][:c2].encode())
            edits.append((l1, b1, l2, b2, new))
    if not edits: return (path, "", notes)
    starts = [0]
    for l in lines: starts.append(starts[-1] + len(l))
    flat = sorted({(starts[a - 1] + b, starts[d - 1] + e, t) for a, b, d, e, t in edits}, reverse=True)
    out = raw; last = len(raw) + 1
    for s, e, t in flat:
        if e > last: notes.append(f"OVERLAP {path.name} {t[:40]!r}"); continue
        out = out[:s] + t.encode() + out[e:]; last = s
    try: ast.parse(out)
    except SyntaxError as err: return (path, f"FAILED {err}", notes)
    path.write_bytes(out)
    return (path, "changed", notes)

# ---- moves and merges

def sh(*words, cwd): subprocess.run(words, cwd=cwd, check=True)

def path_of(root, module): return root / "src" / (module.replace(".", "/") + ".py")

def split_module(text):
    """(docstring, future, imports, typing imports, body) as texts."""
    tree = ast.parse(text); lines = text.splitlines(keepends=True)
    doc, imports, typing, body = "", [], [], []
    used = 0
    def take(a, b): return "".join(lines[a:b])
    pos = 0
    for i, node in enumerate(tree.body):
        start = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", [])]]) - 1
        end = node.end_lineno
        lead = take(pos, start); pos = end
        if i == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            doc = lead + take(start, end) + "\n"
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            pass
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not body:
            imports.append(lead.strip("\n") + ("\n" if lead.strip() else "") + take(start, end))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            a = node.body[0].lineno - 1
            typing.append(take(a, end))
        else:
            body.append(lead + take(start, end))
    tail = take(pos, len(lines))
    return doc, "".join(x if x.endswith("\n") else x + "\n" for x in imports), "".join(typing), "".join(body) + tail

def do_merge(root, old, new, notes):
    a, b = path_of(root, old), path_of(root, new)
    t_doc, t_imp, t_typ, t_body = split_module(b.read_text())
    m_doc, m_imp, m_typ, m_body = split_module(a.read_text())
    defs_a = {n for node in ast.parse(m_body).body for n in defined(node)}
    defs_b = {n for node in ast.parse(t_body).body for n in defined(node)}
    if defs_a & defs_b: notes.append(f"MERGE {old} -> {new}: both define {sorted(defs_a & defs_b)}")
    selfimp = re.compile(r"^from " + re.escape(new) + r" import (\([^)]*\)|.*)\n", re.M)
    before = bool(selfimp.search(t_imp + t_typ))
    t_imp, t_typ, m_imp, m_typ = (selfimp.sub("", x) for x in (t_imp, dedent(t_typ), m_imp, dedent(m_typ)))
    body = (m_body + "\n\n" + t_body) if before else (t_body.rstrip("\n") + "\n\n\n" + m_body.lstrip("\n"))
    typing = t_typ + m_typ
    out = t_doc + "\nfrom __future__ import annotations\n\n" + t_imp + m_imp
    if typing.strip():
        if "TYPE_CHECKING" not in t_imp + m_imp: out += "from typing import TYPE_CHECKING\n"
        out += "\nif TYPE_CHECKING:\n" + "".join("    " + l if l.strip() else l for l in typing.splitlines(keepends=True))
    out += "\n" + body
    b.write_text(out)
    sh("git", "rm", "-qf", str(a), cwd=root)

def dedent(text):
    import textwrap
    return textwrap.dedent(text)

def move_modules(root, plan, notes):
    merged = {o for o, _ in plan.merge}
    for old, new in plan.move.items():
        if old in merged: continue
        a, b = path_of(root, old), path_of(root, new)
        if not a.exists() and (root / "src" / old.replace(".", "/") / "__init__.py").exists():
            a, b = (root / "src" / n.replace(".", "/") / "__init__.py" for n in (old, new))
        if not a.exists(): notes.append(f"no {a}"); continue
        b.parent.mkdir(parents=True, exist_ok=True)
        if b.exists() and b.relative_to(root).as_posix() not in {path_of(root, o).relative_to(root).as_posix() for o in plan.move}:
            notes.append(f"EXISTS {b}")
        sh("git", "mv", "-f", str(a), str(b) + ".moving", cwd=root)
    for old, new in plan.move.items():
        if old in merged: continue
        b = path_of(root, new)
        if not Path(str(b) + ".moving").exists(): b = root / "src" / new.replace(".", "/") / "__init__.py"
        if Path(str(b) + ".moving").exists(): sh("git", "mv", "-f", str(b) + ".moving", str(b), cwd=root)
    for folder in sorted({p.parent for p in (root / "src" / "tertulia").rglob("*.py")}):
        init = folder / "__init__.py"
        if not init.exists():
            init.write_text(f'"""TODO {folder.name}."""\n'); sh("git", "add", str(init), cwd=root); notes.append(f"new package {folder.relative_to(root)}")
    for old, new in plan.merge: do_merge(root, old, new, notes)

def move_tests(root, plan, notes):
    for old, new in plan.move.items():
        _, stage, *rest = old.split(".")
        if not rest: continue
        folder = root / "tests" / stage
        newparts = new.split(".")[1:]
        target = root / "tests" / Path(*newparts[:-1])
        for path in sorted([*folder.glob(f"test_{rest[-1]}.py"), *folder.glob(f"test_{rest[-1]}_*.py")]):
            stem = path.stem[len("test_") + len(rest[-1]):]
            # test_x_y.py may belong to the module x_y
            if stem and any(o.split(".")[1:] == [stage, rest[-1] + stem] or (o.startswith(f"tertulia.{stage}.") and (rest[-1] + stem).startswith(o.split(".")[-1]) and len(o.split(".")[-1]) > len(rest[-1])) for o in plan.all_old):
                continue
            dest = target / f"test_{newparts[-1]}{stem}.py"
            if dest.exists() or dest in plan.test_taken:
                dest = target / f"test_{newparts[-1]}_{rest[-1]}{stem}.py"
            if dest == path: continue
            plan.test_taken.add(dest)
            plan.test_moves["tests." + ".".join(path.relative_to(root / "tests").with_suffix("").parts)] = "tests." + ".".join(dest.relative_to(root / "tests").with_suffix("").parts)
            dest.parent.mkdir(parents=True, exist_ok=True)
            sh("git", "mv", str(path), str(dest), cwd=root)
            deeper = len(dest.relative_to(root).parts) - len(path.relative_to(root).parts)
            if deeper:
                t = dest.read_text()
                t = re.sub(r"Path\(__file__\)\.parents\[(\d+)\]", lambda m: f"Path(__file__).parents[{int(m[1]) + deeper}]", t)
                t = re.sub(r"Path\(__file__\)\.parent\.parent(?!\.parent)", f"Path(__file__).parents[{1 + deeper}]", t)
                t = re.sub(r'Path\(__file__\)\.with_name\(("[^"]+")\)', rf"Path(__file__).parents[{deeper}] / \1", t)
                dest.write_text(t)

def main():
    global PLAN
    ap = argparse.ArgumentParser()
    ap.add_argument("root"); ap.add_argument("maps", nargs="+"); ap.add_argument("--stage", action="append", default=[])
    ap.add_argument("--package", action="append", default=[], help="old=new package rename")
    a = ap.parse_args()
    root = Path(a.root).resolve()
    PLAN = plan = Plan(a.maps, set(a.stage))
    plan.learn(root)
    notes = []
    for m in list(plan.move):
        if m not in plan.modules: notes.append(f"UNKNOWN module {m}"); del plan.move[m]
    for q in list(plan.names):
        if q in plan.reexports: notes.append(f"NOT DEFINED HERE {q}")
    plan.merge = [(o, n) for o, n in plan.merge if o in plan.move]
    plan.all_old = set(plan.modules); plan.test_taken = set(); plan.test_moves = {}
    plan.path_pairs = []
    plan.interesting = set()
    for old, new in plan.move.items():
        o = "/".join(old.split(".")[1:]) + ".py"; n = "/".join(new.split(".")[1:]) + ".py"
        if o.count("/") >= 1: plan.path_pairs.append((o, n))
    # `session/terms` could be produced from one pair and eaten by another: longest first and only once each
    files = [p for top in ("src", "tests", "bench", "examples") for p in sorted((root / top).rglob("*.py"))]
    stages = {m.split(".")[1] for m in [*plan.move, *plan.names] if "." in m}
    # a name that other stages re-export counts for all who might see it
    def concerned(p):
        if "src" in p.parts: return True
        t = p.read_text()
        return any(f"tertulia.{s}" in t or f"import {s}" in t or f"/{s}/" in str(p) or f"{s}/" in t for s in stages) or "from tertulia" in t and bool(plan.names)
    files = [p for p in files if concerned(p)]
    print(len(files), "files,", len(plan.move), "moves,", len(plan.merge), "merges,", len(plan.names), "names")
    with ProcessPoolExecutor(3) as pool:
        for path, said, more in pool.map(work, [(root, p) for p in files], chunksize=8):
            if said.startswith("FAILED"): notes.append(f"{path}: {said}")
            notes += [f"{path.relative_to(root)}: {n}" for n in more]
    for p in [*root.glob("*.md"), *root.glob("*.toml"), root / "Makefile", *(root / "docs").rglob("*.md")]:
        t = p.read_text(); n = rewrite_page(plan, t)
        if n != t: p.write_text(n)
    move_modules(root, plan, notes)
    move_tests(root, plan, notes)
    for helper in sorted((root / "tests").glob("*/*.py")):
        if helper.with_suffix("").is_dir():
            new = helper.with_name(helper.stem + "_stage.py")
            sh("git", "mv", str(helper), str(new), cwd=root)
            plan.test_moves["tests." + ".".join(helper.relative_to(root / "tests").with_suffix("").parts)] = "tests." + ".".join(new.relative_to(root / "tests").with_suffix("").parts)
    for p in [*(root / "tests").rglob("*.py"), *(root / "bench").rglob("*.py")]:
        t = n = p.read_text()
        for old, new in plan.test_moves.items():
            if old in n: n = re.sub(re.escape(old) + r"(?![\w.])", new, n)
            pkg, base = old.rsplit(".", 1); npkg, nbase = new.rsplit(".", 1)
            n = re.sub(rf"^from {re.escape(pkg)} import {base}$", f"from {npkg} import {nbase}" + ("" if base == nbase else f" as {base}"), n, flags=re.M)
            old_path, new_path = (x.replace(".", "/") + ".py" for x in (old, new))
            n = n.replace(old_path, new_path)
        if n != t: p.write_text(n)
    print("\n".join(notes))

if __name__ == "__main__":
    main()
