"""Says in our words why a connection could not be made, and what to look at. Repeats no address."""

from __future__ import annotations

import errno
import os
import re
import socket

_NUMBER = re.compile(r"\[Errno (\d+)\]")
_PLAIN_ANSWERS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})
"""What TLS says of an answer that is not TLS."""


def explain_connection_error(error: BaseException) -> str:
    """The end of a sentence: "connection refused; is it running?"."""
    # Imported here: loading it takes as long as all the rest of a small run, and most connections are made.
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
    # Several addresses were tried: then there is no number, and the text names all of them with theirs.
    found = _NUMBER.search(str(error))
    number = error.errno or (int(found[1]) if found is not None else 0)
    if number == errno.ECONNREFUSED:
        return "connection refused; is it running?"
    return os.strerror(number).lower() if number else type(error).__name__
