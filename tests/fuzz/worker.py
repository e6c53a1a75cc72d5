"""One target in a process of its own: `python -m tests.fuzz.worker NAME FOLDER OPTIONS`. See `__main__`."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

from tests.fuzz.targets import ROOT, WATCHED, Target, load

_SOURCE = ROOT / "src"
_LIMITS = ("-timeout=20", "-rss_limit_mb=2048")
_LENGTH = 4096


def main(name: str, room: Path, options: list[str]) -> None:
    """Never returns."""
    with atheris.instrument_imports(include=["tertulia"], exclude=_others(WATCHED.get(name, ()))):
        target = load(name)
    corpus, words = _prepare(target, room)
    length = max(_LENGTH, *map(len, target.seeds))
    limits = [*_LIMITS, f"-max_len={length}", f"-dict={words}", f"-artifact_prefix={room}/{name}-"]
    # A file to try again is the only thing that is tried.
    tried = [] if any(not option.startswith("-") for option in options) else [str(corpus)]
    atheris.Setup([sys.argv[0], *limits, *options, *tried], target.fuzz)
    atheris.Fuzz()


def _others(watched: tuple[str, ...]) -> list[str]:
    """Our modules that need no watching. To watch one costs more than to import it."""
    files = (path.relative_to(_SOURCE).with_suffix("") for path in _SOURCE.glob("tertulia/**/*.py"))
    modules = (".".join(file.parts).removesuffix(".__init__") for file in files)
    return [module for module in modules if not module.startswith(watched)]


def _prepare(target: Target, room: Path) -> tuple[Path, Path]:
    corpus, words = room / "corpus", room / "words"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(seed)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    return corpus, words


def _escaped(word: bytes) -> str:
    """As a dictionary of libFuzzer has it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
