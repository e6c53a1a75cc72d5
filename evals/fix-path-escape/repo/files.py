"""Serves the files of one folder."""

from pathlib import Path


class Folder:
    """A folder whose files may be read by name."""

    def __init__(self, top):
        self.top = Path(top)

    def read(self, name):
        return (self.top / name).read_text()
