"""Users as text."""


def card(user):
    return f"{user.name}, {user.age}"
