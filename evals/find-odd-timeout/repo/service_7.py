"""Service 7."""

PORT = 8007
TIMEOUT_S = 30


def handle(request):
    return {"service": 7, "request": request}
