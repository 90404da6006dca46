"""Azure Data Lake Storage when something goes wrong, on a stub of ours: lost answers, busy services, killed runs."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from abfs_tables import downloaded, names, uploaded
from certificates import certified
from filesystem_behaviour import put
from judges import merge
from long_runs import amount
from servers.abfs import AbfsStub, Answer, Fault, Request
from servers.abfs import RefusedError as Failure

from acidlib.errors import (
    AcidError,
    ConflictError,
    CorruptError,
    MissingError,
    RefusedError,
    RetryError,
    UnknownOutcomeError,
)
from acidlib.location import Location, parse_location
from acidlib.stores import repeating
from acidlib.stores.removing import find_litter
from acidlib.stores.renaming.abfs import AbfsDataFiles, AbfsFileSystem, AbfsStore
from acidlib.stores.renaming.abfs_client import Container, LogIn, container_options
from acidlib.stores.store import NEW
from acidlib.stores.stores import Stores
from integration.children import Child
from integration.harness import AROUND, Jobs, fixture, probed

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
TWO_RENAMES = ("--minor-as-major-bytes", "0")
DAYS = 86_400
TRANSACTIONS, NAMESPACE = "a renamed path tells its request", "hierarchical namespace"


@pytest.fixture(autouse=True)
def configured(abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())
    for name in ("lost", "busy", "limit", "tells_transactions"):
        monkeypatch.setattr(abfs, name, getattr(abfs, name))  # as they were, at the end
    # for how long a service is left alone, tests/unit/stores/test_repeating.py asks
    monkeypatch.setattr(repeating, "_FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(repeating, "_PATIENCE_SECONDS", 0.0)


@pytest.fixture
def uri(abfs: AbfsStub) -> str:
    return abfs.new_container()


@pytest.fixture
def container(abfs: AbfsStub, uri: str) -> Container:
    return connected(abfs, uri)


@pytest.fixture
def fs(container: Container) -> AbfsFileSystem:
    return AbfsFileSystem(container, place="place")


@pytest.fixture
def place(container: Container, uri: str) -> str:
    AbfsFileSystem(container).make_directory(f"{uri}/place")
    return f"{uri}/place"


def connected(stub: AbfsStub, uri: str, **more: str) -> Container:
    return Container(container_options(uri.removeprefix("abfss://"), stub.properties() | more))


def refused(status: int, code: str) -> Answer:
    return Failure(status, code).answer


def first(name: str, answer: str | Answer, times: int = 1) -> Fault:
    """A fault of the first requests of this name."""
    met: list[Request] = []

    def fault(request: Request) -> str | Answer | None:
        if request.name == name and len(met) < times:
            met.append(request)
            return answer
        return None

    return fault


class TestLostAnswers:
    """Each request that changes something, when its answer is lost, or the request itself."""

    @pytest.mark.parametrize("lost", ["before", "after"])
    @pytest.mark.parametrize("source", ["file", "empty", "full"])
    @pytest.mark.parametrize("limit", [1, 1000])
    def test_a_rename_is_done_once(
        self, abfs: AbfsStub, fs: AbfsFileSystem, place: str, source: str, lost: str, limit: int
    ) -> None:
        put(fs, place, "file", "empty/", "full/x", "full/y")
        abfs.limit = limit
        with abfs.at_fault(first("rename", lost)):
            fs.rename_noreplace(f"{place}/{source}", f"{place}/target")
        assert fs.exists(f"{place}/target")
        assert not fs.exists(f"{place}/{source}")

    def test_a_rename_by_another_is_no_success(self, abfs: AbfsStub, fs: AbfsFileSystem, place: str) -> None:
        put(fs, place, "staging/base_1/", "other/")

        def revoked(request: Request) -> str | None:
            if request.name != "rename":
                return None
            abfs.fault = None
            fs.rename_noreplace(f"{place}/staging", f"{place}/revoked")
            fs.rename_noreplace(f"{place}/other", f"{place}/base_1")
            return "before"

        with (
            abfs.at_fault(revoked),
            pytest.raises(ConflictError, match=r"already exists|no such file"),
        ):
            fs.rename_noreplace(f"{place}/staging/base_1", f"{place}/base_1", missing=ConflictError)

    def test_a_rename_is_done_though_the_service_has_lost_track(
        self, abfs: AbfsStub, fs: AbfsFileSystem, place: str
    ) -> None:
        """Of the directory above the target, until it is asked for the source (HADOOP-18242)."""
        put(fs, place, "source/", "above/")
        lost = refused(404, "RenameDestinationParentPathNotFound")
        with abfs.at_fault(first("rename", lost)):
            fs.rename_noreplace(f"{place}/source", f"{place}/above/target")
        assert fs.exists(f"{place}/above/target")
        with abfs.at_fault(first("rename", lost, times=2)), pytest.raises(CorruptError, match="no such file"):
            fs.rename_noreplace(f"{place}/above/target", f"{place}/target")

    def test_without_transactions_the_outcome_is_not_known(
        self, abfs: AbfsStub, fs: AbfsFileSystem, place: str
    ) -> None:
        """As with a service that does not keep them: a caller looks for a proof of its own."""
        put(fs, place, "source/", "source2/", "taken/")
        abfs.tells_transactions = False
        with abfs.at_fault(first("rename", "after")), pytest.raises(UnknownOutcomeError, match="tells no transaction"):
            fs.rename_noreplace(f"{place}/source", f"{place}/target")
        with abfs.at_fault(first("rename", "before")), pytest.raises(ConflictError, match="already exists"):
            fs.rename_noreplace(f"{place}/source2", f"{place}/taken")

    @pytest.mark.parametrize("lost", ["before", "after"])
    @pytest.mark.parametrize("request_name", ["create file", "append", "rename"])
    def test_a_file_is_made_once_and_whole(
        self, abfs: AbfsStub, fs: AbfsFileSystem, place: str, request_name: str, lost: str
    ) -> None:
        with abfs.at_fault(first(request_name, lost)):
            fs.create(f"{place}/f", b"data")
        assert fs.read(f"{place}/f") == b"data"
        assert [entry.name for entry in fs.list_directory(place)] == ["f"]

    @pytest.mark.parametrize("lost", ["before", "after"])
    @pytest.mark.parametrize("request_name", ["create file", "rename", "append", "flush"])
    def test_a_data_file_has_all_its_bytes(
        self, abfs: AbfsStub, container: Container, fs: AbfsFileSystem, place: str, request_name: str, lost: str
    ) -> None:
        data = bytes(range(251)) * 80_000
        files = AbfsDataFiles(container, place="place")
        with abfs.at_fault(first(request_name, lost)):
            sink = files.create(f"{place}/f")
            sink.write(data)
            sink.close()
        source = files.open(f"{place}/f", len(data))
        assert source.read(0, len(data)) == data
        source.close()

    @pytest.mark.parametrize("limit", [2, 1000])
    def test_a_removal_counts(self, abfs: AbfsStub, fs: AbfsFileSystem, place: str, limit: int) -> None:
        put(fs, place, "a/b/c", "a/d", "a/e", "file", "empty/")
        abfs.limit = limit
        with abfs.at_fault(first("delete", "after")):
            fs.remove_tree(place, "a")
        with abfs.at_fault(first("delete", "after")):
            fs.remove_file(f"{place}/file")
        with abfs.at_fault(first("delete", "after")):
            assert fs.remove_empty_directory(f"{place}/empty")
        assert fs.list_directory(place) == ()
        assert not fs.remove_empty_directory(f"{place}/empty")

    def test_the_outcome_is_not_known_when_no_answer_comes(
        self, abfs: AbfsStub, fs: AbfsFileSystem, place: str, uri: str
    ) -> None:
        put(fs, place, "source/")
        asking_twice = AbfsFileSystem(connected(abfs, uri, **{"fs.azure.io.retry.max.retries": "1"}))
        with abfs.at_fault(first("rename", "after", times=100)), pytest.raises(UnknownOutcomeError, match="was lost"):
            asking_twice.rename_noreplace(f"{place}/source", f"{place}/target")


def test_a_new_file_brings_no_directory_back_that_is_gone(
    abfs: AbfsStub, container: Container, fs: AbfsFileSystem, place: str
) -> None:
    """The service makes all directories above a new path: an attempt that begins as its stage is revoked makes none."""
    put(fs, place, "_tmp_run/_attempts/")

    def revoked(request: Request) -> None:
        if request.name == "create file":
            abfs.fault = None
            fs.rename_noreplace(f"{place}/_tmp_run", f"{place}/_tmp_run.revoked")

    with abfs.at_fault(revoked), pytest.raises(ConflictError, match="no such file"):
        AbfsDataFiles(container, place="place").create(f"{place}/_tmp_run/_attempts/bucket_00000")
    assert [entry.name for entry in fs.list_directory(place)] == ["_tmp_run.revoked"]
    sink = AbfsDataFiles(container, place="place").create(f"{place}/_tmp_run.revoked/bucket_00000")
    sink.write(b"data")
    fs.rename_noreplace(f"{place}/_tmp_run.revoked", f"{place}/_tmp_run")
    with pytest.raises(ConflictError, match="no such file"):
        sink.close()


def test_a_place_that_is_gone_is_not_made_by_a_claim(container: Container, uri: str) -> None:
    store = AbfsStore(container, place="gone")
    gone = parse_location(f"{uri}/gone")
    with pytest.raises(CorruptError, match="no such file"):
        store.claim(gone, owner="run", token="token", now=0)
    assert not store.fs.exists(str(gone))


def test_a_file_that_is_exchanged_while_it_is_read(container: Container, fs: AbfsFileSystem, place: str) -> None:
    """It is read as the first request saw it, or not at all; so is one that was cut."""
    size = 600_000
    fs.create(f"{place}/f", bytes(size))
    source = AbfsDataFiles(container).open(f"{place}/f", size)
    fs.remove_file(f"{place}/f")
    fs.create(f"{place}/f", bytes(size))
    assert source.read(size - 10, 10) == bytes(10)  # came with the first request
    with pytest.raises(CorruptError, match="another file took its place"):
        source.read(0, 10)


def test_a_large_directory_takes_several_requests(abfs: AbfsStub, fs: AbfsFileSystem, place: str) -> None:
    put(fs, place, *(f"large/{number}" for number in range(7)))
    abfs.limit = 2
    fs.rename_noreplace(f"{place}/large", f"{place}/moved")
    assert not fs.exists(f"{place}/large")
    assert len(fs.list_directory(f"{place}/moved")) == 7
    fs.remove_tree(place, "moved")
    assert not fs.exists(f"{place}/moved")
    assert abfs.counts["rename"] > 3


def test_what_has_not_its_name_yet_is_litter_after_a_day(fs: AbfsFileSystem, place: str, container: Container) -> None:
    for name, is_directory in (("file", False), ("directory", True)):
        container.make(f"place/{NEW}{name}", is_directory=is_directory)
    here = parse_location(place)
    assert find_litter(fs, here, now=time.time() + 0.9 * DAYS) == ()
    found = find_litter(fs, here, now=time.time() + 1.1 * DAYS)
    assert sorted(litter.name for litter in found) == [f"{NEW}directory", f"{NEW}file"]


def test_a_new_directory_cannot_be_exchanged_before_it_has_its_name(
    abfs: AbfsStub, container: Container, fs: AbfsFileSystem, place: str
) -> None:
    """A user who writes to the place puts his own there, as soon as it is made: its version is another."""

    def exchanged(request: Request) -> None:
        if request.name == "rename" and NEW in request.headers["x-ms-rename-source"]:
            abfs.fault = None
            (mine,) = (entry.name for entry in fs.list_directory(place))
            fs.remove_empty_directory(f"{place}/{mine}")
            container.make(f"place/{mine}", is_directory=True)

    with abfs.at_fault(exchanged), pytest.raises(ConflictError, match="another program has changed it"):
        fs.make_directory(f"{place}/_acidlib_claim.token")


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (refused(503, "ServerBusy"), RetryError, "is busy (503 ServerBusy)"),
        (Answer(status=503, body=b"<html>"), RetryError, "cannot be reached, or went away (503)"),
        (refused(429, "TooManyRequests"), RetryError, "is busy (429 TooManyRequests)"),
        (refused(500, "OperationTimedOut"), RetryError, "cannot be reached, or went away (500 OperationTimedOut)"),
        (refused(403, "AuthorizationPermissionMismatch"), RetryError, "the permission is missing: the key of the"),
        (refused(403, "AuthenticationFailed"), RetryError, "did not take the key of the account"),
        (refused(404, "FilesystemNotFound"), MissingError, "there is no container"),
        (refused(400, "AccountRequiresHttps"), RefusedError, "by TLS only"),
        (refused(412, "LeaseIdMissing"), RetryError, "another program has a lease on it (412 LeaseIdMissing"),
        (
            Answer(status=200, body=b"<html>", headers={"x-ms-request-id": ""}),
            RetryError,
            "no Azure Data Lake Storage answered",
        ),
        (
            Answer(status=404, body=b"<html>", headers={"x-ms-request-id": ""}),
            RetryError,
            "no Azure Data Lake Storage answered with 404",
        ),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), RetryError, "answered 302"),
        ("before", RetryError, "cannot be reached, or went away"),
    ],
    ids=str,
)
def test_what_the_service_says_is_told(
    abfs: AbfsStub, uri: str, answer: str | Answer, error: type[AcidError], text: str
) -> None:
    files = AbfsFileSystem(connected(abfs, uri, **{"fs.azure.io.retry.max.retries": "1"}))
    assert files.list_directory(f"{uri}/") == ()
    with abfs.at_fault(lambda _: answer), pytest.raises(error) as told:
        files.list_directory(f"{uri}/")
    assert text in str(told.value)
    assert "Cannot list abfss://" in str(told.value)


def test_a_proxy_that_knows_no_such_page_does_not_say_that_a_file_is_gone(
    abfs: AbfsStub, uri: str, fs: AbfsFileSystem, place: str
) -> None:
    files = AbfsFileSystem(connected(abfs, uri, **{"fs.azure.io.retry.max.retries": "1"}))
    assert files.exists(place)
    missing = Answer(status=404, body=b"<html>", headers={"x-ms-request-id": ""})
    with abfs.at_fault(first("getStatus", missing, times=2)), pytest.raises(RetryError, match="answered with 404"):
        files.exists(place)
    with abfs.at_fault(first("rename", missing, times=2)), pytest.raises(UnknownOutcomeError):
        files.rename_noreplace(place, f"{uri}/moved")
    assert files.exists(place)


@pytest.mark.parametrize("token", ["the same", "another"])
def test_a_listing_without_an_end_is_told(
    abfs: AbfsStub, fs: AbfsFileSystem, place: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acidlib.stores.renaming.abfs._MAX_EMPTY_PAGES", 3)
    pages: list[Request] = []

    def endless(request: Request) -> Answer | None:
        if request.name != "list":
            return None
        pages.append(request)
        said = token if token == "the same" else str(len(pages))
        return Answer(status=200, body=b'{"paths": []}', headers={"x-ms-continuation": said})

    fs.make_directory(f"{place}/d")
    for look in (lambda: fs.list_directory(place), lambda: fs.inherit(f"{place}/d", place)):
        pages.clear()
        with abfs.at_fault(endless), pytest.raises(RetryError, match="the listing has no end"):
            look()
        assert len(pages) == (2 if token == "the same" else 4)


def test_a_listing_of_too_many_is_given_up_on_its_way(
    abfs: AbfsStub, fs: AbfsFileSystem, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acidlib.stores.filesystem.MAX_ENTRIES", 3)
    fs.make_directory(f"{place}/d")
    for number in range(6):
        fs.create(f"{place}/d/{number}", b"")
    monkeypatch.setattr(abfs, "page", 1)
    for look in (lambda: fs.list_directory(f"{place}/d"), lambda: fs.inherit(f"{place}/d", place)):
        before = abfs.counts["list"]
        with pytest.raises(RefusedError, match="more than 3 files"):
            look()
        assert abfs.counts["list"] - before <= 4


def test_a_service_that_is_busy_for_a_while_is_asked_again(abfs: AbfsStub, fs: AbfsFileSystem, place: str) -> None:
    for name in ("create directory", "rename", "getStatus", "delete"):
        with abfs.at_fault(first(name, refused(503, "ServerBusy"), times=2)):
            fs.make_directory(f"{place}/d")
            fs.remove_tree(place, "d")


def test_an_answer_that_takes_too_long_is_lost(abfs: AbfsStub, uri: str) -> None:
    files = AbfsFileSystem(
        connected(abfs, uri, **{"fs.azure.http.read.timeout": "500", "fs.azure.io.retry.max.retries": "1"})
    )
    given_up = threading.Event()

    def slow(request: Request) -> None:
        given_up.wait(60)

    assert files.is_directory(f"{uri}/")
    with abfs.at_fault(slow), pytest.raises(RetryError, match=r"went away \(no answer in time"):
        files.is_directory(f"{uri}/")
    given_up.set()


def test_an_account_without_the_namespace_is_refused() -> None:
    with AbfsStub(namespace=False) as flat:
        uri = flat.new_container()
        with pytest.raises(RefusedError, match="no hierarchical namespace"):
            AbfsFileSystem(connected(flat, uri)).list_directory(f"{uri}/")
        with pytest.raises(RefusedError, match=r"hns.enabled.* is false"):
            connected(flat, uri, **{"fs.azure.account.hns.enabled": "false"})
        # where the user may not read the list of the root, an administrator says what there is
        with (
            flat.at_fault(first("getAccessControl", refused(403, "AuthorizationPermissionMismatch"))),
            pytest.raises(RefusedError, match=rf"set fs.azure.account.hns.enabled.{flat.authority} to true"),
        ):
            AbfsFileSystem(connected(flat, uri)).list_directory(f"{uri}/")
        stated = connected(flat, uri, **{"fs.azure.account.hns.enabled": "true"})
        assert AbfsFileSystem(stated).list_directory(f"{uri}/") == ()


def test_a_server_that_is_gone_is_waited_for_once(uri: str) -> None:
    with AbfsStub() as gone:
        authority = f"lake@{gone.authority}"
    stores = Stores(configuration=gone.properties())
    place = stores.locate(f"abfss://{authority}/t")

    def look() -> None:
        with pytest.raises(RetryError, match="cannot be reached"):
            stores.fs(place).is_directory(str(place))

    look()
    with socket.create_server(("127.0.0.1", int(gone.authority.rpartition(":")[2]))) as come_back:
        come_back.setblocking(False)
        look()
        look()
        with pytest.raises(BlockingIOError):  # nobody has asked
            come_back.accept()
    assert stores.unreachable.reason(gone.authority)


# --- how requests show whose they are ---------------------------------------------------------------------------------


def test_a_certificate_that_nobody_vouches_for_is_told(tmp_path: Path) -> None:
    context, _ = certified(tmp_path)
    with AbfsStub(tls=context) as stub:
        uri = stub.new_container()
        with pytest.raises(RetryError, match=r"cannot be reached.*TLS:.*CERTIFICATE_VERIFY_FAILED"):
            AbfsFileSystem(connected(stub, uri)).list_directory(f"{uri}/")
        assert not stub.asked


def test_a_wrong_key_is_told_and_not_shown(abfs: AbfsStub, uri: str) -> None:
    wrong = "d3Jvbmcga2V5"
    files = AbfsFileSystem(connected(abfs, uri, **{f"fs.azure.account.key.{abfs.authority}": wrong}))
    with pytest.raises(RetryError, match="did not take the key of the account") as told:
        files.list_directory(f"{uri}/")
    assert wrong not in str(told.value)


def test_a_token_of_shared_access(
    abfs: AbfsStub, uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "urllib3")
    monkeypatch.setattr(abfs, "sas", "sv=2024-11-04&sp=rwdlm&sig=secret%2Bsignature%3D")
    given = {f"fs.azure.sas.fixed.token.{abfs.authority}": f"?{abfs.sas}"}
    options = container_options(uri.removeprefix("abfss://"), given)
    assert options.log_in is LogIn.SAS
    # the stub has no TLS, without which no token is sent but here
    container = Container(replace(options, is_secure=False))
    fs = AbfsFileSystem(container)
    put(fs, uri, "a/b", "c d")
    fs.rename_noreplace(f"{uri}/a", f"{uri}/moved")
    assert [entry.path for entry in fs.list_tree(uri, enter_hidden=True)] == ["c d", "moved", "moved/b"]
    monkeypatch.setattr(abfs, "sas", "sv=2024-11-04&sig=another")
    with pytest.raises(RetryError, match="did not take the SAS token") as told:
        fs.list_directory(uri)
    assert "secret" not in str(told.value)
    assert "sig=***" in caplog.text
    assert "secret" not in caplog.text


def test_tokens_by_a_managed_identity_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By azure-identity itself, whose endpoint on this machine is one of ours."""
    context, trusted = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with AbfsStub(tls=context) as stub, token_endpoint("a-token", monkeypatch):
        uri = stub.new_container()
        stub.tokens["a-token"] = "11111111-2222-3333-4444-555555555555"
        properties = {
            f"fs.azure.account.auth.type.{stub.authority}": "OAuth",
            "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider",
        }
        fs = AbfsFileSystem(Container(container_options(uri.removeprefix("abfss://"), properties)))
        fs.make_directory(f"{uri}/d")
        fs.create(f"{uri}/d/f", b"data")
        assert fs.read(f"{uri}/d/f") == b"data"
        assert fs.owner(f"{uri}/d") == stub.tokens["a-token"]
        stub.tokens.clear()
        with pytest.raises(RetryError, match="did not take the identity that azure-identity finds"):
            fs.list_directory(f"{uri}/d")


def token_endpoint(token: str, patch: pytest.MonkeyPatch) -> AbfsStub:
    """What answers to requests for tokens, as on a machine of Azure."""
    stub = AbfsStub()
    answer = {
        "access_token": token,
        "expires_on": str(int(time.time()) + 3600),
        "resource": "https://storage.azure.com",
        "token_type": "Bearer",
    }
    stub.fault = lambda _: Answer(
        status=200, body=json.dumps(answer).encode(), headers={"Content-Type": "application/json"}
    )
    patch.setenv("IDENTITY_ENDPOINT", f"http://{stub.authority}/token")
    patch.setenv("IDENTITY_HEADER", "of this machine")
    return stub


# --- whole jobs -------------------------------------------------------------------------------------------------------


def rows(abfs: AbfsStub, place: Location, tmp_path: Path) -> list[merge.Row]:
    """What a reader that is not ours sees."""
    return merge.read(downloaded(abfs, place, tmp_path / "seen/t"), "", generation=3)


@pytest.fixture
def table(abfs: AbfsStub, abfs_container: str, tmp_path: Path) -> Location:
    return uploaded(abfs, fixture("hive3/a_crud", tmp_path / "t"), "crud", container=abfs_container)


@pytest.fixture
def ticking(abfs: AbfsStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe need not wait until whole seconds have passed, as those of the races on the stub do."""
    monkeypatch.setattr(abfs, "ticking", True)


@pytest.mark.usefixtures("ticking")
def test_nothing_is_published_without_a_probe(abfs: AbfsStub, jobs: Jobs, tmp_path: Path) -> None:
    unknown = uploaded(abfs, fixture("hive3/a_crud", tmp_path / "t"), "crud")
    before = abfs.asked.copy()
    planned = jobs.good("major_compact", "--location", str(unknown), *ALL, "--dry-run")
    assert planned.states == ["planned"]
    refused_run = jobs("major_compact", "--location", str(unknown), *ALL)
    assert f"run: acidlib probe {unknown.parent}" in refused_run.told
    assert not [line for line in abfs.asked[len(before) :] if line.startswith(("create", "rename", "append"))]
    assert set(probed(str(unknown.parent)).values()) == {"holds", "not tried"}
    jobs.good("major_compact", "--location", str(unknown), *ALL)


def test_a_record_of_another_user_is_not_obeyed(
    abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, uri: str
) -> None:
    """He may write to the table; what he lays there as a dead run would leave it makes no run remove or publish."""
    before = rows(abfs, table, tmp_path)
    record = {"version": 1, "directories": [{"name": "base_0000009", "files": {}}], "inputs": ["delta_0000001"]}
    files = AbfsFileSystem(connected(abfs, str(table).rpartition(table.path)[0]))
    put(files, str(table), "_tmp_forged/base_0000009/", "_tmp_forged/_acidlib_staging")
    files.create(f"{table}/_tmp_forged/publish.json", json.dumps(record).encode())
    abfs.give(table.authority.partition("@")[0], f"{table.path[1:]}/_tmp_forged", "anna")
    jobs.good("major_compact", "--location", str(table), *ALL)
    jobs.good("cleaner", *NOW)
    assert names(abfs, table) == ["_tmp_forged", "base_0000004"]
    assert rows(abfs, table, tmp_path) == before


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("broken", amount([TRANSACTIONS], long=[TRANSACTIONS, NAMESPACE]))
def test_an_account_that_breaks_a_promise_is_refused(
    abfs: AbfsStub, jobs: Jobs, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = uploaded(abfs, fixture("hive3/a_crud", tmp_path / "t"), "crud")
    if broken == TRANSACTIONS:
        abfs.tells_transactions = False
    else:
        properties = {**abfs.properties(), "fs.azure.account.hns.enabled": "true"}
        monkeypatch.setattr(AROUND, "hadoop", properties)
        monkeypatch.setattr(abfs, "namespace", False)
    assert probed(str(place.parent))[broken] == "BROKEN"
    assert broken in jobs("major_compact", "--location", str(place), *ALL).told


@pytest.mark.parametrize("fault", ["lost", "busy"])
def test_a_job_that_meets_faults_all_the_time(
    abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, fault: str
) -> None:
    before = rows(abfs, table, tmp_path)
    setattr(abfs, fault, 0.1)
    jobs.good("minor_compact", "--location", str(table), *ALL, *TWO_RENAMES)
    jobs.good("major_compact", "--location", str(table), *ALL)
    jobs.good("cleaner", *NOW)
    setattr(abfs, fault, 0.0)
    assert rows(abfs, table, tmp_path) == before
    assert names(abfs, table) == ["base_0000004"]


@pytest.mark.parametrize("at", amount([19], long=range(30)))
def test_a_service_that_is_gone_in_the_middle(
    abfs: AbfsStub, table: Location, jobs: Jobs, tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one of the requests that change something on nothing is answered; the next run does it all."""
    before = rows(abfs, table, tmp_path)
    properties = {**abfs.properties(), "fs.azure.io.retry.max.retries": "1"}
    monkeypatch.setattr(AROUND, "hadoop", properties)
    changes: list[str] = []

    def gone(request: Request) -> str | None:
        changes.extend([request.name] if request.method not in ("GET", "HEAD") else [])
        return None if len(changes) <= at else "before" if len(changes) % 2 else "after"

    def run() -> None:
        ran = jobs("minor_compact", "--location", str(table), *ALL, *TWO_RENAMES)
        assert set(ran.states) <= {"failed", "conflict", "ready for cleaning", "unknown outcome"}, ran

    with abfs.at_fault(gone):  # by a process that ends, and with it the claim that it could not give back
        assert Child(run, tmp_path / "answer").wait() == 0
    monkeypatch.setattr(AROUND, "clock", lambda: time.time() + 2 * DAYS)
    end(abfs, table, jobs, tmp_path, before, monkeypatch)


def end(
    abfs: AbfsStub,
    table: Location,
    jobs: Jobs,
    tmp_path: Path,
    before: list[merge.Row],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next runs find the rows as they were, and leave a base alone."""
    jobs.good("major_compact", "--location", str(table), *ALL)
    assert rows(abfs, table, tmp_path) == before
    jobs.good("cleaner", *NOW)
    monkeypatch.setattr(AROUND, "clock", lambda: time.time() + 3 * DAYS)
    jobs.good("cleaner", "--location", str(table), *NOW)
    assert names(abfs, table) == ["base_0000004"]
    assert rows(abfs, table, tmp_path) == before
