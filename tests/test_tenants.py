"""Tenants: any id is safe, nobody sees another, and what is erased is gone."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem_fast import InvalidInput, StoreClosed, Tenants

HOSTILE = [
    "../",
    "/etc/passwd",
    "..\\..\\x",
    "a\0b",
    "CON",
    ".",
    "..",
    "~",
    "\u00e9",
    "e\u0301",
    "🦉",
    "x" * 10_000,
    " ",
    "a/b",
]


def test_any_id_has_a_directory_of_its_own_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Tenants(root) as tenants:
        for number, tenant in enumerate(HOSTILE):
            tenants.open(tenant).add(f"canary {number}")
        for number, tenant in enumerate(HOSTILE):
            assert [item.text for item in tenants.open(tenant).list()] == [f"canary {number}"]
        assert sorted(tenants) == sorted(HOSTILE)
    assert {entry.name for entry in tmp_path.iterdir()} == {"root"}
    assert all(len(entry.name) == 32 and int(entry.name, 16) >= 0 for entry in root.iterdir())
    if sys.platform != "win32":
        assert all(stat.S_IMODE(entry.stat().st_mode) == 0o700 for entry in root.iterdir())


@pytest.mark.parametrize("tenant", ["", None, 3, b"alice", "\ud800", "x" * 70_000])
def test_what_names_no_tenant_is_refused(tmp_path: Path, tenant: object) -> None:
    with Tenants(tmp_path) as tenants, pytest.raises(InvalidInput, match="tenant"):
        tenants.open(tenant)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_erase_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    with Tenants(tmp_path) as tenants:
        for tenant in ("alice", "bob"):
            tenants.open(tenant).add(f"canary of {tenant}")
        held = tenants.open("alice")
        assert tenants.erase("alice")
        assert not tenants.erase("alice")
        with pytest.raises(StoreClosed):
            held.count()
        assert list(tenants) == ["bob"]
        assert "alice" not in tenants
        assert tenants.open("bob").count() == 1
        assert not any(b"canary of alice" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_more_tenants_than_stay_open(tmp_path: Path) -> None:
    with Tenants(tmp_path, keep_open=2) as tenants:
        held = tenants.open("held")
        id = held.add("kept by whoever holds it")
        for number in range(10):
            tenants.open(f"tenant {number}").add("one")
        held.used([id])
        assert tenants.open("held") is held
        assert [tenants.open(f"tenant {number}").count() for number in range(10)] == [1] * 10
    with Tenants(tmp_path) as tenants:
        assert tenants.open("held").get(id).use_count == 1


def test_closed_tenants_say_so(tmp_path: Path) -> None:
    tenants = Tenants(tmp_path)
    tenants.close()
    tenants.close()
    with pytest.raises(StoreClosed):
        tenants.open("alice")


@settings(max_examples=200)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=20, unique=True))
def test_different_ids_never_share_a_directory(ids: list[str]) -> None:
    from tiermem_fast.tenants import _directory_name

    encodable = [tenant for tenant in ids if tenant.encode(errors="ignore").decode() == tenant]
    assert len({_directory_name(tenant) for tenant in encodable}) == len(encodable)
