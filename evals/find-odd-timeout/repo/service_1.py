"""Service 1."""

PORT = 8001
TIMEOUT_S = 30


def handle(request):
    return {"service": 1, "request": request}
