"""The entry."""

from router import dispatch
from wire import decode, encode


def serve(line):
    return encode(dispatch(decode(line)))
