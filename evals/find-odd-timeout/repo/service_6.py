"""Service 6."""

PORT = 8006
TIMEOUT_S = 30


def handle(request):
    return {"service": 6, "request": request}
