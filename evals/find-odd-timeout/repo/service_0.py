"""Service 0."""

PORT = 8000
TIMEOUT_S = 30


def handle(request):
    return {"service": 0, "request": request}
