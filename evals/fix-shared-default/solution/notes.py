"""Notes with tags."""


class Note:
    """A text with tags."""

    def __init__(self, text, tags=()):
        self.text = text
        self.tags = list(tags)

    def tag(self, name):
        if name not in self.tags:
            self.tags.append(name)
        return self


def copy_note(note):
    """Another note with the same text and tags."""
    return Note(note.text, note.tags)
