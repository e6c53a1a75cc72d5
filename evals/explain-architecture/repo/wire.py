"""Texts on the wire."""

import json


def decode(line):
    return json.loads(line)


def encode(answer):
    return json.dumps(answer)
