"""Service 5."""

PORT = 8005
TIMEOUT_S = 30


def handle(request):
    return {"service": 5, "request": request}
