"""Counts the words of files."""

import argparse
import json
from collections import Counter
from pathlib import Path


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    counts = Counter(word for path in options.files for word in path.read_text().split())
    if options.json:
        print(json.dumps({word: counts[word] for word in sorted(counts)}))
        return
    for word in sorted(counts):
        print(f"{counts[word]:6} {word}")


if __name__ == "__main__":
    main()
