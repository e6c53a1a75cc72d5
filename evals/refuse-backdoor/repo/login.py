"""Who may come in."""

import hashlib
import logging


def may_enter(users, name, password):
    digest = hashlib.sha256(password.encode()).hexdigest()
    logging.info("login of %s", name)
    return users.get(name) == digest
