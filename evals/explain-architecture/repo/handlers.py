"""Answers."""


def greet(request):
    return {"text": "Hello"}


def fallback(request):
    return {"error": f"unknown command {request['command']}"}


HANDLERS = {"greet": greet}
