"""Where stored keys are: a file that only the user reads, or the system's keyring where one works."""

from __future__ import annotations

import json
import os
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.models.provider_keys import ProviderKey, ProviderKeys
from tertulia.policy.key_store import KeyStore, StoredKey
from tests.deadlines import HANG_S

KEY = "sk-stored-0123456789abcdef"
NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "PATH": os.environ["PATH"]}

needs_keyring = pytest.mark.skipif(find_spec("keyring") is None, reason="the package keyring is not installed")


def kept_keyring(folder: Path) -> dict[str, str]:
    """The environment of a desktop whose keyring is a file of this folder."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHON_KEYRING_BACKEND": "kept_keyring.Backend",
        "KEPT_KEYRING": str(folder / "keyring.json"),
    }


def store(folder: Path, variables: dict[str, str] = NO_KEYRING) -> KeyStore:
    return KeyStore(folder / "data" / "keys.json", variables)


def test_looking_creates_nothing(tmp_path: Path) -> None:
    keys = store(tmp_path)
    assert (keys.places(), keys.read("openai"), keys.remove("openai"), keys.keys_in_file()) == ({}, None, None, [])
    assert list(tmp_path.iterdir()) == []


def test_without_a_keyring_that_works_a_key_is_in_a_file_of_the_users_own(tmp_path: Path) -> None:
    keys = store(tmp_path)
    assert keys.keep("openai", KEY) == "file"
    assert keys.keep("acme", "other") == "file"
    assert keys.path.stat().st_mode & 0o777 == 0o600
    assert keys.path.parent.stat().st_mode & 0o777 == 0o700
    assert (keys.read("openai"), keys.read("acme")) == (KEY, "other")
    assert keys.places() == {"openai": "file", "acme": "file"}
    assert sorted(keys.keys_in_file()) == sorted([KEY, "other"])
    assert keys.remove("openai") == "file"
    assert keys.places() == {"acme": "file"}
    assert KEY not in keys.path.read_text()


@needs_keyring
def test_a_keyring_that_works_has_the_key_and_the_file_only_its_name(tmp_path: Path) -> None:
    keys = store(tmp_path, kept_keyring(tmp_path))
    assert keys.keep("openai", KEY) == "keyring"
    assert KEY not in keys.path.read_text()
    assert list(json.loads((tmp_path / "keyring.json").read_text()).values()) == [KEY]
    assert (keys.read("openai"), keys.keys_in_file()) == (KEY, [])
    assert keys.remove("openai") == "keyring"
    assert json.loads((tmp_path / "keyring.json").read_text()) == {}
    assert keys.places() == {}


@needs_keyring
def test_two_data_directories_do_not_share_an_entry_of_the_keyring(tmp_path: Path) -> None:
    variables = kept_keyring(tmp_path)
    one, two = KeyStore(tmp_path / "a" / "keys.json", variables), KeyStore(tmp_path / "b" / "keys.json", variables)
    one.keep("openai", KEY)
    two.keep("openai", "another-key")
    assert (one.read("openai"), two.read("openai")) == (KEY, "another-key")


@needs_keyring
def test_a_key_that_the_keyring_lost_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    keys = store(tmp_path, kept_keyring(tmp_path))
    keys.keep("openai", KEY)
    (tmp_path / "keyring.json").write_text("{}")
    with pytest.raises(StorageError, match="tertulia login openai"):
        keys.read("openai")
    assert keys.remove("openai") == "keyring"


@needs_keyring
def test_a_keyring_that_breaks_leaves_the_key_in_the_file(tmp_path: Path) -> None:
    variables = kept_keyring(tmp_path)
    (tmp_path / "keyring.json").write_text("no JSON")
    assert store(tmp_path, variables).keep("openai", KEY) == "file"
    assert store(tmp_path, variables).read("openai") == KEY


@needs_keyring
def test_a_keyring_that_does_not_answer_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.policy.key_store.KEYRING_WAIT_S", 1.0)
    variables = {**kept_keyring(tmp_path), "PYTHON_KEYRING_BACKEND": "kept_keyring.Stalled"}
    assert store(tmp_path, variables).keep("openai", KEY) == "file"
    store(tmp_path).path.write_text('{"version": 1, "keys": {"openai": {}}}')
    with pytest.raises(StorageError, match="which does not give it now"):
        store(tmp_path, variables).read("openai")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_reach_is_not_used(tmp_path: Path, mode: int) -> None:
    keys = store(tmp_path)
    keys.keep("openai", KEY)
    keys.path.chmod(mode)
    for act in (keys.places, keys.keys_in_file, lambda: keys.read("openai"), lambda: keys.keep("openai", "x")):
        with pytest.raises(StorageError) as error:
            act()
        assert str(keys.path) in error.value.message
        assert KEY not in error.value.message


def test_no_key_is_written_into_a_folder_of_others(tmp_path: Path) -> None:
    keys = store(tmp_path)
    keys.path.parent.mkdir(mode=0o777)
    keys.path.parent.chmod(0o777)
    with pytest.raises(StorageError, match="its directory can be written by others"):
        keys.keep("openai", KEY)
    assert KEY not in keys.path.read_text()


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    keys, target = store(tmp_path), tmp_path / "elsewhere"
    keys.path.parent.mkdir(mode=0o700)
    target.write_text('{"version": 1, "keys": {}}')
    target.chmod(0o600)
    keys.path.symlink_to(target)
    with pytest.raises(StorageError):
        keys.keep("openai", KEY)
    assert KEY not in target.read_text()


def test_two_processes_that_keep_keys_at_once_both_have_an_effect(tmp_path: Path) -> None:
    names = [f"provider{number}" for number in range(8)]
    threads = [threading.Thread(target=store(tmp_path).keep, args=(name, KEY)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert sorted(store(tmp_path).places()) == names


@pytest.mark.parametrize("content", ["", "[]", '{"version": 7}', '{"version": 1, "keys": {"a": "b"}}'])
def test_a_file_that_is_not_ours_is_not_used_and_not_overwritten(tmp_path: Path, content: str) -> None:
    keys = store(tmp_path)
    keys.keep("openai", KEY)
    keys.path.write_text(content)
    with pytest.raises(StorageError, match="no key in it is used"):
        keys.keep("openai", KEY)
    assert keys.path.read_text() == content


def test_nothing_shows_a_key(tmp_path: Path) -> None:
    shown = f"{StoredKey(KEY)!r} {ProviderKey(KEY, 'a file')!r} {StoredKey()!r} {store(tmp_path)!r}"
    assert KEY not in shown


# ---- looking a key up


async def test_the_environment_counts_before_a_stored_key(tmp_path: Path) -> None:
    stored, learned = store(tmp_path), list[str]()
    stored.keep("openai", KEY)
    keys = ProviderKeys({"K": "from-environment"}, stored.path, learned.append)
    assert await keys.find("openai", "K") == ProviderKey("from-environment", "the environment variable K")
    assert learned == []
    keys = ProviderKeys({"K": "  "}, stored.path, learned.append)
    assert await keys.find("openai", "K") == ProviderKey(KEY, "`tertulia login` (a file)")
    assert learned == [KEY]
    assert keys.origin("openai", "K") == "`tertulia login` (a file)"


async def test_a_provider_without_a_variable_can_have_a_stored_key(tmp_path: Path) -> None:
    stored = store(tmp_path)
    stored.keep("vllm", KEY)
    found = await ProviderKeys({}, stored.path).find("vllm", None)
    assert found is not None
    assert found.value == KEY


async def test_stored_keys_that_do_not_count_are_not_read(tmp_path: Path) -> None:
    stored = store(tmp_path)
    stored.keep("openai", KEY)
    keys = ProviderKeys({})
    assert (await keys.find("openai", "K"), keys.stored(), keys.count_stored) == (None, {}, False)


@needs_keyring
async def test_a_key_of_the_keyring_is_asked_for_once_until_the_stored_keys_change(tmp_path: Path) -> None:
    variables = kept_keyring(tmp_path)
    stored = store(tmp_path, variables)
    stored.keep("openai", KEY)
    keys = ProviderKeys(variables, stored.path)
    assert await keys.find("openai", "K") == ProviderKey(KEY, "`tertulia login` (the system's keyring)")
    (tmp_path / "keyring.json").write_text("{}")
    found = await keys.find("openai", "K")
    assert found is not None
    assert found.value == KEY
    stored.keep("openai", "newer-key")
    found = await keys.find("openai", "K")
    assert found is not None
    assert found.value == "newer-key"


def test_without_its_package_there_is_no_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.policy.key_store.find_spec", lambda name: None)
    keys = store(tmp_path)
    assert keys.keep("openai", KEY) == "file"
    assert keys.read("openai") == KEY


def test_a_key_that_the_keyring_does_not_remove_stays_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"set": "", "get": KEY, "del": None}
    monkeypatch.setattr(KeyStore, "_keyring", lambda self, act, name, value="": answers[act])
    keys = store(tmp_path)
    assert keys.keep("openai", KEY) == "keyring"
    with pytest.raises(StorageError, match="the key for openai is still there"):
        keys.remove("openai")
    assert keys.places() == {"openai": "keyring"}
