"""Users as text."""


def card(user):
    mail = "" if user.email is None else f" <{user.email}>"
    return f"{user.name}{mail}, {user.age}"
