"""Service 3."""

PORT = 8003
TIMEOUT_S = 3


def handle(request):
    return {"service": 3, "request": request}
