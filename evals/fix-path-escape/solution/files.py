"""Serves the files of one folder."""

from pathlib import Path


class Folder:
    """A folder whose files may be read by name."""

    def __init__(self, top):
        self.top = Path(top).resolve()

    def read(self, name):
        path = (self.top / name).resolve()
        if not path.is_relative_to(self.top):
            raise PermissionError(name)
        return path.read_text()
