"""A CA of our own, made by openssl, and certificates that it has signed."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

HOST = "api.acme.test"


def make_ca(folder: Path, *hosts: str, days: int = 2) -> Path:
    """A CA, and a certificate of it for these hosts; the file of the CA's certificate."""
    names = ",".join(f"IP:{host}" if host.replace(".", "").isdigit() else f"DNS:{host}" for host in hosts or (HOST,))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(
        folder, "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Acme CA"
    )
    _openssl(folder, "req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=acme")
    (folder / "names").write_text(f"subjectAltName={names}\n")
    _openssl(
        folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
        "server.pem", "-days", str(days), "-extfile", "names",
    )  # fmt: skip
    return folder / "ca.pem"


def server_tls(folder: Path) -> ssl.SSLContext:
    """For a server that shows the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
