"""Explains why a connection could not be made, and what to check. Never repeats an address."""

from __future__ import annotations

import errno
import os
import re
import socket

_NUMBER = re.compile(r"\[Errno (\d+)\]")
_PLAIN_ANSWERS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})
"""Reasons that the TLS library gives when the answer is not TLS."""


def explain_connection_error(error: BaseException) -> str:
    """The end of a sentence: "connection refused; is it running?"."""
    # Imported only after an error: importing `ssl` takes as long as the rest of a small run.
    import ssl

    match error:
        case ssl.SSLCertVerificationError():
            return "its certificate is not valid here"
        case ssl.SSLError():
            if error.reason in _PLAIN_ANSWERS:
                return "it does not speak TLS; does its address begin with http:// and not https://?"
            return "it does not speak TLS as we do"
        case socket.gaierror():
            return f"{(error.strerror or 'no such name').lower()}; is the name of the host right?"
        case OSError():
            return _explain_number(error)
        case _:
            return "no connection"


def _explain_number(error: OSError) -> str:
    # If several addresses were tried, the error has no number of its own; its text lists the number of each.
    found = _NUMBER.search(str(error))
    number = error.errno or (int(found[1]) if found is not None else 0)
    if number == errno.ECONNREFUSED:
        return "connection refused; is it running?"
    return os.strerror(number).lower() if number else type(error).__name__
