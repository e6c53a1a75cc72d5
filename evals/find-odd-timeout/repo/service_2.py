"""Service 2."""

PORT = 8002
TIMEOUT_S = 30


def handle(request):
    return {"service": 2, "request": request}
