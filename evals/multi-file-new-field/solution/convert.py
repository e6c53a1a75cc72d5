"""Users as plain values."""

from model import User


def to_dict(user):
    return {"name": user.name, "age": user.age, "email": user.email}


def from_dict(fields):
    return User(fields["name"], fields["age"], fields.get("email"))
