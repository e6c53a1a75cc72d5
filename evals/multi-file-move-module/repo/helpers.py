"""Helpers for strings."""


def upper_first(text):
    return text[:1].upper() + text[1:]


def initials(name):
    return "".join(word[0] for word in name.split())
