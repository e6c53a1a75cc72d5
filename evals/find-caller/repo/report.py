"""Reports."""

import hashes as h


def buckets(names):
    return {h.legacy_hash(name) for name in names}


def sizes(names):
    return [len(name) for name in names]
