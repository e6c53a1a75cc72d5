"""Stores users."""

from hashes import key_of, new_hash


def put(store, user):
    store[key_of(user)] = user


def put_new(store, user):
    store[new_hash(user["name"])] = user


def put_all(store, users):
    for user in users:
        put(store, user)


def describe():
    return "legacy_hash is not called here"
