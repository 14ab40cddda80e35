"""Archives come whole or not at all, and whose fault it is is said: archive, store or disk."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import boto3
import pytest

from merlin_simulator.archives.local_s3 import fill, make_bucket, make_local_client, run_local_s3
from merlin_simulator.archives.s3 import DOWNLOAD_S, NOT_THERE, S3Archives, make_s3_client
from merlin_simulator.archives.stores import ArchiveStore, FolderArchives, open_archives
from merlin_simulator.errors import ArchiveUnavailable, PlatformFailed
from simulator.tests.support.waiting import in_a_calm_moment
from simulator.tests.unit.archives.disks import going_on, small_files

CONTENT = os.urandom(3_000_000)


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of this machine, and no search for them on the network."""
    for name in list(os.environ):
        if name.startswith("AWS_") and name != "AWS_CA_BUNDLE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Archives in a folder and a sub-folder, and files that are none."""
    made = tmp_path / "archives"
    (made / "sub").mkdir(parents=True)
    (made / "b.tar.gz").write_bytes(CONTENT)
    (made / "a.tar.gz").write_bytes(b"a")
    (made / "sub" / "é c.tar.gz").write_bytes(b"c")
    (made / "notes.txt").write_bytes(b"n")
    return made


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    """Where downloads go: whatever happens, only whole files are there."""
    made = tmp_path / "arrivals"
    made.mkdir()
    return made


@contextmanager
def refused(kind: type[Exception], match: str, arrivals: Path) -> Iterator[None]:
    """Within the block the exception is raised, one printable line, and nothing arrives."""
    with pytest.raises(kind, match=match) as raised:
        yield
    assert str(raised.value).isprintable()
    assert list(arrivals.iterdir()) == []


# -- both stores


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, folder: Path) -> Iterator[ArchiveStore]:
    """The same archives in a folder and in an S3 that speaks over a socket."""
    if request.param == "folder":
        yield open_archives(str(folder))
        return
    with run_local_s3() as url:
        assert len(list(fill(url, "models", folder, "pre/fix"))) == 3
        yield open_archives("s3://models/pre/fix", url)


def test_an_archive_arrives_whole(store: ArchiveStore, arrivals: Path) -> None:
    """Its bytes are what was put there, and counted; nothing else lies beside it."""
    assert store.download("b.tar.gz", arrivals / "file", going_on) == len(CONTENT)
    assert store.download("sub/é c.tar.gz", arrivals / "file2", going_on) == 1
    assert {path.name: path.read_bytes() for path in arrivals.iterdir()} == {
        "file": CONTENT,
        "file2": b"c",
    }


@pytest.mark.slow
def test_the_names_are_those_of_archives_sorted(store: ArchiveStore) -> None:
    """As many as asked for."""
    assert store.names(10) == ["a.tar.gz", "b.tar.gz", "sub/é c.tar.gz"]
    assert store.names(2) == ["a.tar.gz", "b.tar.gz"]
    assert store.names(0) == []


def test_an_archive_that_is_not_there_is_unavailable(store: ArchiveStore, arrivals: Path) -> None:
    """SageMaker's sentence with bucket and key; the same for a folder and below a file."""
    for name in ("none.tar.gz", "sub", "a.tar.gz/x", "n" * 1000):
        words = f"Failed to download model data (bucket: {store.bucket}, key: {store.key(name)}). "
        with pytest.raises(ArchiveUnavailable) as raised:
            store.download(name, arrivals / "file", going_on)
        assert str(raised.value).startswith(words)
    assert list(arrivals.iterdir()) == []


@pytest.mark.slow
def test_given_up_nothing_remains(store: ArchiveStore, arrivals: Path) -> None:
    """In the middle of a download."""
    answers = iter([False, True])
    with refused(PlatformFailed, "given up", arrivals):
        store.download("b.tar.gz", arrivals / "file", lambda: next(answers))


def test_a_disk_that_takes_no_more_is_the_platforms_fault(
    store: ArchiveStore, arrivals: Path
) -> None:
    """The message names the folder."""
    with small_files(100_000), refused(PlatformFailed, f"{arrivals}.*too large", arrivals):
        store.download("b.tar.gz", arrivals / "file", going_on)


# -- the folder


def test_the_folder_says_what_it_has(folder: Path, arrivals: Path) -> None:
    """The one who mistyped a name sees the others."""
    with refused(ArchiveUnavailable, "there are: a.tar.gz, b.tar.gz, sub/é c.tar.gz", arrivals):
        FolderArchives(folder).download("d.tar.gz", arrivals / "file", going_on)


@pytest.mark.parametrize(
    "name", ["out.tar.gz", "way/x.tar.gz", "../secret.tar.gz", "circle.tar.gz"]
)
def test_links_out_of_the_folder_are_refused(folder: Path, arrivals: Path, name: str) -> None:
    """Neither followed nor listed, as a file or as a folder on the way."""
    outside = folder.parent / "secret"
    outside.mkdir()
    (outside / "x.tar.gz").write_bytes(b"secret")
    (folder.parent / "secret.tar.gz").write_bytes(b"secret")
    (folder / "out.tar.gz").symlink_to(outside / "x.tar.gz")
    (folder / "way").symlink_to(outside)
    (folder / "circle.tar.gz").symlink_to("circle.tar.gz")
    store = FolderArchives(folder)
    with refused(ArchiveUnavailable, "leads out|cannot be opened", arrivals):
        store.download(name, arrivals / "file", going_on)
    assert store.names(10) == ["a.tar.gz", "b.tar.gz", "sub/é c.tar.gz"]


def test_links_inside_the_folder_are_followed(folder: Path, arrivals: Path) -> None:
    """And the folder itself may be reached by one: "latest" is often a link."""
    (folder / "latest.tar.gz").symlink_to("sub/é c.tar.gz")
    (folder.parent / "here").symlink_to(folder)
    store = FolderArchives(folder.parent / "here")
    assert store.download("latest.tar.gz", arrivals / "file", going_on) == 1
    assert "latest.tar.gz" in store.names(10)


def test_a_pipe_in_the_folder_is_no_archive(folder: Path, arrivals: Path) -> None:
    """And nobody waits for what comes out of it."""
    os.mkfifo(folder / "pipe.tar.gz")
    with refused(ArchiveUnavailable, "It is no file", arrivals):
        FolderArchives(folder).download("pipe.tar.gz", arrivals / "file", going_on)


@pytest.mark.parametrize("size", [10, 2_000_000, 4_000_000])
def test_a_file_that_changes_while_it_is_copied_is_not_taken(
    folder: Path, arrivals: Path, size: int
) -> None:
    """Shrunk, cut in what was not yet read, or grown."""

    def changing() -> bool:
        os.truncate(folder / "b.tar.gz", size)
        return False

    with refused(ArchiveUnavailable, "changed while it was copied", arrivals):
        FolderArchives(folder).download("b.tar.gz", arrivals / "file", changing)


def test_a_folder_that_is_not_there_is_told_at_the_start(tmp_path: Path) -> None:
    """With what to do; a file is no folder either."""
    (tmp_path / "file").touch()
    for place in ("none", "file"):
        with pytest.raises(PlatformFailed, match=f"no folder {tmp_path}/{place}.*make it"):
            open_archives(str(tmp_path / place))


# -- S3


class FakeS3:
    """A server that reads one request per connection and answers with one behaviour.

    requests counts the connections, head is the last request's; a behaviour gets the connection
    once that is read.
    """

    def __init__(self, behaviour: Callable[[FakeS3, socket.socket], None]) -> None:
        self.behaviour, self.requests, self.head = behaviour, 0, ""
        self.over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> FakeS3:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(60)

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.requests += 1
                connection.settimeout(60)
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                self.head = head.decode("latin-1")
                self.behaviour(self, connection)


def answering(status: int, code: str) -> Callable[[FakeS3, socket.socket], None]:
    """Every request gets this error, as S3 words it."""

    def behaviour(_: FakeS3, connection: socket.socket) -> None:
        body = f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    return behaviour


def cut(server: FakeS3, connection: socket.socket) -> None:
    """A good answer that ends after half of its body."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100_000)


def reset(server: FakeS3, connection: socket.socket) -> None:
    """As cut, with a connection that is torn rather than closed."""
    cut(server, connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def silent(server: FakeS3, connection: socket.socket) -> None:
    """No answer at all."""
    server.over.wait(60)


def stalling(server: FakeS3, connection: socket.socket) -> None:
    """A good answer whose body stops coming."""
    cut(server, connection)
    server.over.wait(60)


@cache
def session() -> boto3.Session:
    """One for all downloads: each reads what S3 is anew, 0.1 s long. It knows no account."""
    return boto3.Session()


def download_from(
    url: str, arrivals: Path, download_s: float = DOWNLOAD_S, read_timeout_s: float = 60.0
) -> None:
    client = make_s3_client(url, read_timeout_s=read_timeout_s, session=session())
    store = S3Archives("models", "p", client, download_s)
    store.download("x.tar.gz", arrivals / "file", going_on)


@pytest.mark.parametrize(
    ("behaviour", "match"),
    [
        (cut, "broke off after 100000 of 200000 bytes"),
        (reset, "broke off after .* of 200000 bytes"),
        (stalling, "broke off after 65536 of 200000 bytes.*timed? ?out"),
        (silent, "cannot be got: .*timeout"),
        (answering(500, "InternalError"), "cannot be got: .*InternalError"),
        (answering(503, "SlowDown"), "cannot be got: .*SlowDown"),
        (answering(429, "TooManyRequests"), "cannot be got: .*TooManyRequests"),
        (answering(400, "RequestTimeout"), "cannot be got: .*RequestTimeout"),
    ],
)
def test_a_store_that_fails_is_the_platforms_fault(
    behaviour: Callable[[FakeS3, socket.socket], None], match: str, arrivals: Path
) -> None:
    """Down, slow, torn or overloaded: it is said in one sentence, in time, and nothing remains."""
    read_timeout_s = 0.3 if behaviour in (stalling, silent) else 60.0

    def check(_: int) -> None:
        with FakeS3(behaviour) as server, refused(PlatformFailed, match, arrivals):
            download_from(server.url, arrivals, read_timeout_s=read_timeout_s)
        assert 1 <= server.requests <= 3

    in_a_calm_moment(check)  # one that stalls has sent the half of it in those 0.3 s


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b""])
def test_an_answer_that_does_not_tell_its_length_has_an_end_of_its_own(
    end: bytes, arrivals: Path
) -> None:
    """A gateway before S3 may answer in chunks: whole with the last one, broken off without."""

    def chunked(server: FakeS3, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        connection.sendall(end)

    with FakeS3(chunked) as server:
        if end:
            download_from(server.url, arrivals)
            assert (arrivals / "file").read_bytes() == b"abc"
        else:
            with refused(PlatformFailed, r"broke off after \d of \? bytes", arrivals):
                download_from(server.url, arrivals)


@pytest.mark.slow
def test_a_store_that_is_down_is_the_platforms_fault(arrivals: Path) -> None:
    """Connections refused, for a download and at the start."""
    with socket.create_server(("127.0.0.1", 0)) as freed:
        url = f"http://127.0.0.1:{freed.getsockname()[1]}"
    with refused(PlatformFailed, "s3://models/p/x.tar.gz cannot be got: Could not conn", arrivals):
        download_from(url, arrivals)
    with refused(PlatformFailed, "s3://models/p/ cannot be listed: Could not connect", arrivals):
        open_archives("s3://models/p", url)


def test_a_download_has_an_end(arrivals: Path) -> None:
    """Also one whose bytes never stop coming."""

    def flowing(server: FakeS3, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        try:
            while not server.over.is_set():
                connection.sendall(b"x" * 65536)
        except OSError:
            return

    with FakeS3(flowing) as server, refused(PlatformFailed, r"it took over 0.2 s", arrivals):
        download_from(server.url, arrivals, download_s=0.2)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (404, "NoSuchKey", ""),
        (404, "NoSuchBucket", " S3 answered NoSuchBucket."),
        (403, "AccessDenied", " S3 answered AccessDenied."),
        (403, "InvalidAccessKeyId", " S3 answered InvalidAccessKeyId."),
        (400, "ExpiredToken", " S3 answered ExpiredToken."),
        (400, "KeyTooLongError", " S3 answered KeyTooLongError."),
    ],
)
def test_an_object_that_may_not_be_had_is_unavailable(
    status: int, code: str, said: str, arrivals: Path
) -> None:
    """SageMaker's own words, and S3's where it is not plainly missing; asked for once."""
    with FakeS3(answering(status, code)) as server, pytest.raises(ArchiveUnavailable) as raised:
        download_from(server.url, arrivals)
    assert str(raised.value) == (
        f"Failed to download model data (bucket: models, key: p/x.tar.gz). {NOT_THERE}{said}"
    )
    assert list(arrivals.iterdir()) == []
    assert server.requests == 1


@pytest.mark.parametrize(
    ("location", "match"),
    [
        ("s3://none", "s3://none/ cannot be listed: .*NoSuchBucket.*Check the bucket's name"),
        ("s3://", "names no bucket: expected s3://BUCKET/PREFIX"),
        ("s3:///x", "names no bucket"),
        ("s3://a b", "cannot be listed: .*[Ii]nvalid bucket name"),
    ],
)
def test_a_location_that_is_no_bucket_is_told_at_the_start(location: str, match: str) -> None:
    """With what to check."""
    with run_local_s3() as url, pytest.raises(PlatformFailed, match=match) as raised:
        open_archives(location, url)
    assert str(raised.value).isprintable()


@pytest.mark.slow
def test_an_endpoint_url_that_is_none_is_told_at_the_start() -> None:
    """boto3's ValueError does not get out."""
    with pytest.raises(PlatformFailed, match=r"No client for S3.*Invalid endpoint"):
        open_archives("s3://models", "not a url")


@pytest.mark.slow
def test_a_prefix_is_a_folder_however_it_is_written() -> None:
    """With and without slashes around; none at all is the whole bucket."""
    with run_local_s3() as url:
        make_bucket(url, "models")
        for key in ("p/a.tar.gz", "pq/b.tar.gz", "c.tar.gz", "p/", "p/d.txt"):
            make_local_client(url).put_object(Bucket="models", Key=key, Body=b"")
        for location in ("s3://models/p", "s3://models/p/", "s3://models//p"):
            assert open_archives(location, url).names(9) == ["a.tar.gz"]
            assert open_archives(location, url).description == "s3://models/p/"
        everything = ["c.tar.gz", "p/a.tar.gz", "pq/b.tar.gz"]
        assert open_archives("s3://models", url).names(9) == everything


def test_buckets_are_in_the_path_at_an_endpoint_url() -> None:
    """In docker compose there is a host s3 and none called models.s3; Amazon's own has both."""
    asked = {"Bucket": "models", "Key": "x"}
    url = make_s3_client("http://s3:9000").generate_presigned_url("get_object", asked)
    assert url.startswith("http://s3:9000/models/x")


def paging(server: FakeS3, connection: socket.socket) -> None:
    """A listing in two pages."""
    more = "continuation-token=next" in server.head
    token = "" if more else "<NextContinuationToken>next</NextContinuationToken>"
    body = (
        f"<ListBucketResult><Contents><Key>p/{int(more)}.tar.gz</Key></Contents>"
        f"<IsTruncated>{str(not more).lower()}</IsTruncated>{token}</ListBucketResult>"
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


@pytest.mark.slow
def test_names_are_read_over_all_pages() -> None:
    """S3 lists a thousand at a time; no page is asked for that is not needed."""
    with FakeS3(paging) as server:
        store = S3Archives("models", "p", make_s3_client(server.url))
        assert store.names(2000) == ["0.tar.gz", "1.tar.gz"]
        assert server.requests == 2
        assert store.names(1) == ["0.tar.gz"]
        assert server.requests == 3


def test_no_credentials_are_told_when_it_is_amazons_s3() -> None:
    """Only with an endpoint url do requests go unsigned."""
    with pytest.raises(PlatformFailed, match="Unable to locate credentials"):
        open_archives("s3://models")
