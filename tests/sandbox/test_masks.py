"""Where secrets lie."""

from __future__ import annotations

from tertulia.sandbox.masks import default_masks


def test_a14_the_default_list_is_that_of_the_design() -> None:
    """A14"""
    assert default_masks("/home/ana", "/data/tertulia") == (
        "/home/ana/.ssh",
        "/home/ana/.aws",
        "/home/ana/.gnupg",
        "/home/ana/.config/gcloud",
        "/home/ana/.kube",
        "/home/ana/.netrc",
        "/home/ana/.codex/auth.json",
        "/home/ana/.claude",
        "/data/tertulia",
    )
