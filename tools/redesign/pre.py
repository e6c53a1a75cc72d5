import re, sys
from pathlib import Path
root = Path(sys.argv[1])
p = root / 'src/tertulia/errors.py'; t = p.read_text()
def snake(n): return re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower()
t = t.replace('''
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
''', '').replace("import re\n\n", "")
t = re.sub(r'class (\w+)\(\w+\):\n    """[^\n]*"""', lambda m: m.group(0) + f'\n\n    code = "{snake(m.group(1))}"' if m.group(1) != 'AgentError' else m.group(0), t)
t = t.replace("`code` is the snake_case name of the class, on every surface.", "`code` is spelled on the class and stays, whatever the class is called; every surface shows it.")
p.write_text(t)
p = root / 'src/tertulia/apps/session_export.py'; t = p.read_text()
t = t.replace('said |= {"kind": type(record).__name__.lower(), "record": _record(record)}', 'said |= {"kind": _KINDS[type(record)], "record": _record(record)}')
t = t.replace('from tertulia.protocol.records import Agreed, Asked, Record, Said', 'from tertulia.protocol.records import (Agreed, Asked, Drawn, Ended, Forked, Noted, Queued, Record, Rewritten, Said, Submitted)')
t = t.replace('VERSION = 1\n', '''VERSION = 1
_KINDS: dict[type[Record], str] = {
    Agreed: "agreed",
    Drawn: "drawn",
    Ended: "ended",
    Forked: "forked",
    Noted: "noted",
    Queued: "queued",
    Rewritten: "rewritten",
    Said: "said",
    Submitted: "submitted",
}
"""What each record is called in an export. Part of the format: it does not follow the names of the classes."""
''', 1)
p.write_text(t)
