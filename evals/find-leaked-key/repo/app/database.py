"""The connection."""

from app.settings import HOST, PASSWORD, USER


def address():
    return f"db://{USER}:{PASSWORD}@{HOST}"
