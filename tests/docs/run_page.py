"""Runs the Python of one page, given on standard input, as its reader would: `await` is allowed at the top level."""

import ast
import asyncio
import inspect
import sys
import types

code = compile(sys.stdin.read(), sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
run = types.FunctionType(code, {"__name__": "__main__"})
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(run())
else:
    run()
