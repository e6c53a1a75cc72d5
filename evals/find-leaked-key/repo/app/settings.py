"""Settings."""

import os

HOST = "localhost"
USER = os.environ.get("APP_USER", "app")
PASSWORD = os.environ.get("APP_PASSWORD", "")
