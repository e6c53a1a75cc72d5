import os
import tempfile
from pathlib import Path

from files import Folder

with tempfile.TemporaryDirectory() as name:
    above = Path(name)
    (above / "top" / "inner").mkdir(parents=True)
    (above / "topper").mkdir()
    (above / "secret.txt").write_text("secret")
    (above / "topper" / "x.txt").write_text("secret")
    (above / "top" / "a.txt").write_text("a")
    (above / "top" / "inner" / "b.txt").write_text("b")
    os.symlink(above / "secret.txt", above / "top" / "link.txt")
    os.symlink("../a.txt", above / "top" / "inner" / "near.txt")
    folder = Folder(above / "top")
    assert folder.read("a.txt") == "a"
    assert folder.read("inner/b.txt") == "b"
    assert folder.read("inner/../a.txt") == "a"
    assert folder.read("inner/near.txt") == "a", "a link that stays inside is fine"
    for bad in ("../secret.txt", str(above / "secret.txt"), "link.txt", "inner/../../secret.txt", "../topper/x.txt"):
        try:
            found = folder.read(bad)
        except PermissionError:
            continue
        raise AssertionError(f"{bad} was read: {found}")
