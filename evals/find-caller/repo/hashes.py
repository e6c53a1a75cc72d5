"""Hashes."""


def legacy_hash(text):
    return sum(map(ord, text)) % 997


def new_hash(text):
    return hash(text)


def key_of(user):
    return legacy_hash(user["name"])
