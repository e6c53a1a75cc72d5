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
            return _explain_certificate(error.verify_code)
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


def _explain_certificate(code: int) -> str:
    """What is wrong with a certificate, by the number that the TLS library has for it, and what to do."""
    match code:
        case 9 | 10:
            return "its certificate is not valid at this time; is the clock of this machine right?"
        case 62 | 63 | 64:
            return "its certificate is for another host; is its address right?"
        case _:
            return (
                "its certificate is not trusted here; if a CA of your own has signed it, name the file with that CA's "
                "certificate in `ca_file`, or in the variable SSL_CERT_FILE"
            )


def _explain_number(error: OSError) -> str:
    # If several addresses were tried, the error has no number of its own; its text lists the number of each.
    found = _NUMBER.search(str(error))
    number = error.errno or (int(found[1]) if found is not None else 0)
    if number == errno.ECONNREFUSED:
        return "connection refused; is it running?"
    return os.strerror(number).lower() if number else type(error).__name__
