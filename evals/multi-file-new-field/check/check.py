from convert import from_dict, to_dict
from eval_run import original, workspace
from model import User
from view import card

plain, mailed = User("Ana", 30), User("Eva", 40, email="eva@example.org")
assert plain.email is None
assert card(plain) == "Ana, 30"
assert card(mailed) == "Eva <eva@example.org>, 40", card(mailed)
assert from_dict({"name": "Ana", "age": 30}) == plain
for user in (plain, mailed):
    assert from_dict(to_dict(user)) == user
before, after = ((folder / "CHANGELOG.md").read_text() for folder in (original, workspace))
assert "mail" in after.lower() and all(line in after for line in before.splitlines()), "CHANGELOG.md has no line on it"
