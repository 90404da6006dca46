"""What a cleaner moves aside on HDFS: to the user's trash where the name node keeps one, else within the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hdfs_tables import downloaded, uploaded
from servers.hdfs import SUPERUSER, Hdfs

from acidlib.location import Location, parse_location
from acidlib.stores.removing import RemovalReport, remove_paths
from acidlib.stores.stores import Stores
from integration.harness import AROUND, Jobs, fixture, tree

pytestmark = pytest.mark.live

USERS = ("etl", "anna")
"""They have a home."""
As = Callable[[str], Stores]


@pytest.fixture
def as_user(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> As:
    """Stores of a user. Another configuration has a connection of its own, which knows what the name node says now."""

    def stores(user: str) -> Stores:
        monkeypatch.setenv("HADOOP_USER_NAME", user)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
        monkeypatch.setattr(AROUND, "hadoop", {"dfs.tests.trash": user})
        return Stores(configuration=hdfs.configuration | AROUND.hadoop)

    return stores


@pytest.fixture(scope="module")
def kept(hdfs: Hdfs) -> Hdfs:
    """A name node that keeps a trash, from here on: it is no matter to other tests."""
    hdfs.empty_trash_after(60)
    client = hdfs.client()
    for user in USERS:
        client.mkdirs(f"/user/{user}", create_parent=True)
        client.set_permission(f"/user/{user}", 0o700)
        client.set_owner(f"/user/{user}", user, user)
    return hdfs


def table_of(hdfs: Hdfs, source: Path, owner: str) -> Location:
    table = uploaded(hdfs, source, "crud")
    client = hdfs.client()
    for status in (client.get_file_info(table.path), *client.list_status(table.path, recursive=True)):
        client.set_owner(status.path, owner, "hive")
    return table


def small(tmp_path: Path) -> Path:
    (tmp_path / "t/delta_1_1").mkdir(parents=True)
    (tmp_path / "t/delta_1_1/bucket_00000").write_text("rows")
    return tmp_path / "t"


def moved_aside(stores: Stores, place: Location, *paths: str) -> RemovalReport:
    store = stores.store(place)
    with store.claim(place, owner="run", token="ours", now=0) as held:
        return remove_paths(store, held, paths, to_trash=store.trash(place, "now"))


def contents(root: Path) -> dict[str, str]:
    return {name: facts[0] for name, facts in tree(root).items() if name != "."}


def test_without_an_interval_it_stays_in_the_place(hdfs: Hdfs, as_user: As, tmp_path: Path) -> None:
    place = uploaded(hdfs, small(tmp_path))
    (found,) = moved_aside(as_user(SUPERUSER), place, "delta_1_1").removed
    assert found.moved_to == f"{place}/_acidlib_trash/now/delta_1_1"
    assert [*downloaded(hdfs, place, tmp_path / "t2").rglob("bucket*")]


def test_the_cleaner_moves_it_to_the_trash_of_its_user(kept: Hdfs, as_user: As, jobs: Jobs, tmp_path: Path) -> None:
    local = fixture("hive3/a_crud", tmp_path / "t")
    table = table_of(kept, local, "etl")
    as_user("etl")
    jobs.good("major_compact", "--location", str(table), "--all-committed")
    (planned,) = jobs.good("cleaner", "--retention", "0s", "--trash", "--dry-run").document["cleanings"]
    assert f" to move to the trash of this user on {kept.uri}, " in planned["reason"]
    (cleaned,) = jobs.good("cleaner", "--retention", "0s", "--trash").document["cleanings"]
    trash = parse_location(f"{kept.uri}/user/etl/.Trash/Current{table.path}")
    assert {item["moved_to"] for item in cleaned["removed"]} == {f"{trash}/{path.name}" for path in local.iterdir()}
    size = sum(path.stat().st_size for path in local.rglob("*") if path.is_file())
    assert (cleaned["state"], cleaned["bytes_removed"], cleaned["bytes_moved"]) == ("succeeded", 0, size)
    assert contents(downloaded(kept, trash, tmp_path / "trash")) == contents(local)
    assert [path.name for path in downloaded(kept, table, tmp_path / "left").iterdir()] == ["base_0000004"]


def test_each_user_has_a_trash_and_names_that_are_taken_get_the_time(kept: Hdfs, as_user: As, tmp_path: Path) -> None:
    place = table_of(kept, small(tmp_path), "anna")
    (first,) = moved_aside(as_user("anna"), place, "delta_1_1").removed
    assert first.moved_to == f"{kept.uri}/user/anna/.Trash/Current{place.path}/delta_1_1"
    kept.client().mkdirs(place.child("delta_1_1").path)
    kept.client().set_owner(place.child("delta_1_1").path, "anna")
    (second,) = moved_aside(as_user("anna"), place, "delta_1_1").removed
    assert second.moved_to is not None
    assert second.moved_to.removeprefix(first.moved_to).isdecimal()
    assert kept.client().get_file_info(f"{parse_location(first.moved_to).path}/bucket_00000").length == 4


def test_what_cannot_go_to_the_trash_stays(kept: Hdfs, as_user: As, tmp_path: Path) -> None:
    """A user without a home; what the user could not remove; a home that is full."""
    source = small(tmp_path)
    whats = {
        "bob": "the permission is missing: user bob needs the right to write (w) on /user,",
        "etl": "the permission is missing: user etl needs the right ",
        "anna": "the quota is used up (",
    }
    kept.client().mkdirs("/user/anna/.Trash/Current/full", create_parent=True)
    kept.client().set_owner("/user/anna/.Trash", "anna")
    kept.client().set_owner("/user/anna/.Trash/Current", "anna")
    kept.admin("-setQuota", "1", "/user/anna/.Trash/Current")
    places = {user: table_of(kept, source, user) for user in whats}
    kept.client().set_owner(places["etl"].child("delta_1_1").path, SUPERUSER)
    for user, place in places.items():
        report = moved_aside(as_user(user), place, "delta_1_1")
        assert (report.removed, len(report.failed)) == ((), 1)
        (failed,) = report.failed.values()
        assert failed.startswith(f"Cannot move {place}/delta_1_1 to the trash: {whats[user]}")
        assert "\n" not in failed
        assert contents(downloaded(kept, place, tmp_path / "left")) == contents(source)
