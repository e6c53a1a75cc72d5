"""The certificates by which TLS connections are checked: those of the system, and a file or folder of the user's."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tertulia.errors import InvalidParamsError

if TYPE_CHECKING:
    import ssl

_BEGIN = re.compile(rb"^-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----")
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""The names under which a folder has certificates."""


@lru_cache(maxsize=16)
def tls_context(ca_file: str | None = None, ca_dir: str | None = None) -> ssl.SSLContext:
    """Trusts what this system trusts, and these. Read once; InvalidParams where they cannot be used."""
    # Imported here: it takes as long as the rest of a small run.
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except ssl.SSLError:
            raise _no_certificates(ca_file) from None
        except OSError as error:
            raise _unreadable(ca_file, error) from None
    if ca_dir is not None:
        check_ca_dir(ca_dir)
        context.load_verify_locations(capath=ca_dir)
    return context


def check_ca_file(ca_file: str) -> None:
    """InvalidParams where a file has no certificates. Much faster than reading them, which needs the TLS library."""
    try:
        with open(ca_file, "rb") as file:
            has_some = any(_BEGIN.search(line) for line in file)
    except OSError as error:
        raise _unreadable(ca_file, error) from None
    if not has_some:
        raise _no_certificates(ca_file)


def _unreadable(ca_file: str, error: OSError) -> InvalidParamsError:
    return InvalidParamsError(f"ca_file: {ca_file} cannot be read: {(error.strerror or type(error).__name__).lower()}")


def _no_certificates(ca_file: str) -> InvalidParamsError:
    return InvalidParamsError(f"ca_file: {ca_file} has no certificates in PEM form (-----BEGIN CERTIFICATE-----)")


def check_ca_dir(ca_dir: str) -> None:
    """InvalidParams where none of the folders has a certificate that would be found."""
    for folder in ca_dir.split(os.pathsep):
        try:
            if any(map(_HASHED.fullmatch, os.listdir(folder))):
                return
        except OSError:
            continue
    raise InvalidParamsError(
        f"ca_dir: {ca_dir} is no folder with certificates under their hashes; `openssl rehash` makes the names"
    )
