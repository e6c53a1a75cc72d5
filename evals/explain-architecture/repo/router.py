"""Finds who answers."""

from handlers import HANDLERS, fallback


def dispatch(request):
    return HANDLERS.get(request["command"], fallback)(request)
