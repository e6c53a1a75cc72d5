"""Service 4."""

PORT = 8004
TIMEOUT_S = 30


def handle(request):
    return {"service": 4, "request": request}
