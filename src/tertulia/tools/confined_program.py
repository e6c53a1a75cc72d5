"""How programs of this package run inside the sandbox: isolated, with nothing of the package imported but themselves.

Such a program has `main`, which takes the request and returns the answer, or writes one itself and returns None. It is
imported and not run by its path, so that Python need not compile it each time; and the JSON of both is read and written
by what the module json is made of, because to import that takes longer than most requests.
"""

from __future__ import annotations

import os.path
import sys

_RUN = """
import sys
from _json import encode_basestring_ascii, make_encoder, make_scanner
class Plain:
    strict, parse_float, parse_int = True, float, int
    object_hook = object_pairs_hook = parse_constant = None
sys.path.append(sys.argv[1])
program = __import__(sys.argv[2])
request, _ = make_scanner(Plain)(sys.stdin.buffer.read().decode().strip(), 0)
answer = program.main(request)
if answer is not None:
    encode = make_encoder(None, None, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    sys.stdout.write("".join(encode(answer, 0)) + "\\n")
"""
# The folder comes last on the path: what is called like a module of Python there must not come before it.


def confined_program(file: str) -> tuple[str, ...]:
    """The command that runs the program of this file; the request is its input, as JSON."""
    folder, name = os.path.split(os.path.abspath(file))
    return (sys.executable, "-I", "-S", "-c", _RUN, folder, name.removesuffix(".py"))
