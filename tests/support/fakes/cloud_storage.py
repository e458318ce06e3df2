"""A fake of Cloud Storage's JSON API that can fail on demand.

It supports the requests that google-cloud-storage 3 sends with `STORAGE_EMULATOR_HOST`. Objects are
listed in pages, read, downloaded (also in ranges), uploaded in one or several requests, and
deleted. Each version of an object has a generation, and `ifGenerationMatch` is checked. Buckets are
created, described and changed.
"""

import base64
import contextlib
import gc
import hashlib
import json
import threading
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
import pytest

from tests.support.fakes.http_server import HANGS, LoopbackHandler, LoopbackServer

PROJECT_NUMBER: Final = "123456789012"
"""The number of the caller's project."""
Operation = Literal["bucket", "list", "get", "download", "upload", "delete"]
"""The operation of a request; each request of a resumable upload is an `upload`."""
Name = tuple[str, str]
"""The name of a bucket, and of an object in it."""

CLIENT_LEAVES_SOCKETS: Final = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""A mark for tests with failed downloads, after which the client leaves sockets open."""
FIRST_GENERATION: Final = 1_700_000_000_000_000
"""The generation before that of the first object. At Google, generations are microseconds."""


@dataclass(frozen=True)
class Fault:
    """A fault in one request.

    Attributes:
        status: The HTTP status; 200 serves the request.
        headers: Additional headers.
        missing: The number of bytes of the Content-Length that are never sent.
        pause: Seconds before the response; the server's shutdown ends the pause.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    pause: float = 0.0


HANG: Final = Fault(pause=HANGS)
CUT_CONNECTION: Final = Fault(missing=10)
"""The request is served, but the last ten bytes of the response are never sent."""
THROTTLED: Final = Fault(status=429)
BROKEN: Final = Fault(status=500)
FORBIDDEN: Final = Fault(status=403)


@dataclass(frozen=True)
class Blob:
    """One version of an object.

    Attributes:
        content: The bytes.
        generation: The number of the version.
        content_type: The media type.
        updated: When the version was stored.
    """

    content: bytes
    generation: int
    content_type: str = "application/octet-stream"
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_resource(self, name: Name) -> dict[str, Any]:
        """Return the object's resource in the API."""
        time = self.updated.isoformat().replace("+00:00", "Z")
        return {
            "kind": "storage#object",
            "id": f"{name[0]}/{name[1]}/{self.generation}",
            "bucket": name[0],
            "name": name[1],
            "generation": str(self.generation),
            "metageneration": "1",
            "contentType": self.content_type,
            "size": str(len(self.content)),
            "md5Hash": _hash_md5(self.content),
            "crc32c": _compute_crc32c(self.content),
            "etag": _hash_md5(str(self.generation).encode()),
            "timeCreated": time,
            "updated": time,
        }


class FakeCloudStorage(LoopbackServer):
    """A fake Cloud Storage on a free port while the `with` block runs.

    Attributes:
        blobs: The newest version of each object.
        buckets: The resources of existing buckets. Requests for others get status 404. A bucket
            whose `projectNumber` is not PROJECT_NUMBER is in a project of somebody else.
        faults: For each operation, the faults of the next requests, in order.
        lasting_faults: For each operation, the fault of all requests after its `faults`.
        page_size: The maximum number of objects in a page of a listing.
        unlisted_fields: The fields of objects that listings omit.
        calls: The number of requests for each operation.
        failed_downloads: The number of downloads with a fault.
        sessions: The resumable uploads by id.
    """

    def __init__(self, *buckets: str, page_size: int = 1_000) -> None:
        """Open the port, with these empty buckets."""
        super().__init__(_Handler)
        self.buckets: dict[str, dict[str, Any]] = {name: {} for name in buckets}
        self.blobs: dict[Name, Blob] = {}
        self.faults: defaultdict[Operation, deque[Fault]] = defaultdict(deque)
        self.lasting_faults: dict[Operation, Fault] = {}
        self.page_size = page_size
        self.unlisted_fields: frozenset[str] = frozenset()
        self.calls: Counter[Operation] = Counter()
        self.failed_downloads = 0
        self.sessions: dict[str, _Session] = {}
        self._generation = FIRST_GENERATION
        self._lock = threading.RLock()

    def __exit__(self, *_: object) -> None:
        """Stop, and have the garbage collector close the sockets that the client left open.

        The client does not close the sockets of failed downloads, so the collector warns about
        them. Tests with failed downloads have the mark `CLIENT_LEAVES_SOCKETS`.
        """
        super().__exit__()
        if self.failed_downloads:
            gc.collect()

    @property
    def base_url(self) -> str:
        """The server's URL, for `STORAGE_EMULATOR_HOST`."""
        return f"http://127.0.0.1:{self.server_port}"

    def put(
        self, bucket: str, name: str, content: bytes | str, content_type: str = "text/plain"
    ) -> Blob:
        """Store an object, as another writer would."""
        data = content.encode() if isinstance(content, str) else content
        with self._lock:
            self._generation += 1
            blob = self.blobs[bucket, name] = Blob(data, self._generation, content_type)
        return blob

    def delete(self, bucket: str, name: str) -> None:
        """Delete an object, as another writer would."""
        with self._lock:
            del self.blobs[bucket, name]

    def read_text(self, bucket: str, name: str) -> str:
        """Return the content of an object as text."""
        return self.blobs[bucket, name].content.decode()

    def list_names(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the names of a bucket's objects, in the order of a listing."""
        with self._lock:
            names = [name for blob_bucket, name in self.blobs if blob_bucket == bucket]
        return sorted(name for name in names if name.startswith(prefix))

    def arrive(self, operation: Operation) -> Fault:
        """Count a request and return its fault."""
        with self._lock:
            self.calls[operation] += 1
            queue = self.faults[operation]
            return queue.popleft() if queue else self.lasting_faults.get(operation, Fault())


@dataclass
class _Session:
    """A resumable upload in progress."""

    name: Name
    content_type: str
    precondition: str | None
    received: bytes = b""


@dataclass(frozen=True)
class _Response:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeCloudStorage

    def do_GET(self) -> None:
        if self._segments[-1] == "o":
            self._serve("list")
        elif "o" not in self._segments:
            self._serve("bucket")
        else:
            media = self._query.get("alt") == "media"
            self._serve("download" if media else "get")

    def do_POST(self) -> None:
        self._serve("bucket" if self._segments[-1] == "b" else "upload")

    def do_PATCH(self) -> None:
        self._serve("bucket")

    def do_PUT(self) -> None:
        self._serve("upload")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def _serve(self, operation: Operation) -> None:
        body = self.read_body()
        fault = self.server.arrive(operation)
        self.server.pause(fault.pause)
        response = (
            self._execute(operation, body)
            if fault.status == 200
            else _make_error_response(fault.status)
        )
        if operation == "download" and (fault.missing or fault.pause or response.status >= 400):
            self.server.failed_downloads += 1
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            headers = response.headers | fault.headers
            self.send_answer(response.status, response.body, headers, fault.missing)

    def _execute(self, operation: Operation, body: bytes) -> _Response:
        if operation == "bucket":
            return self._answer_for_bucket(json.loads(body or b"{}"))
        if self._name[0] not in self.server.buckets:
            return _make_error_response(404)
        match operation:
            case "list":
                return self._list()
            case "upload":
                return self._store_upload(body)
            case _:
                return self._answer_for_blob(operation)

    def _answer_for_bucket(self, body: dict[str, Any]) -> _Response:
        """Create, describe or change a bucket, or list those of the caller's project."""
        buckets = self.server.buckets
        if self.command == "GET" and self._segments[-1] == "b":
            items = [{"name": name} for name in buckets if self._is_own(name)]
            return _make_json_response({"kind": "storage#buckets", "items": items})
        if self.command == "POST":
            if body["name"] in buckets:
                return _make_error_response(409)
            buckets[body["name"]] = {"projectNumber": PROJECT_NUMBER, **body}
        name = body["name"] if self.command == "POST" else unquote(self._segments[-1])
        if name not in buckets:
            return _make_error_response(404)
        if self.command == "PATCH":
            _merge(buckets[name], body)
        return _make_json_response({"kind": "storage#bucket", "name": name, **buckets[name]})

    def _is_own(self, bucket: str) -> bool:
        """Return whether a bucket is in the caller's project, and starts with the prefix."""
        resource = self.server.buckets[bucket]
        number = resource.get("projectNumber", PROJECT_NUMBER)
        return number == PROJECT_NUMBER and bucket.startswith(self._query.get("prefix", ""))

    def _list(self) -> _Response:
        bucket, query = self._name[0], self._query
        names = self.server.list_names(bucket, query.get("prefix", ""))
        start = int(base64.b64decode(query["pageToken"])) if "pageToken" in query else 0
        size = min(self.server.page_size, int(query.get("maxResults", "1000")))
        page = names[start : start + size]
        listing: dict[str, Any] = {"kind": "storage#objects"}
        if page:
            listing["items"] = [self._list_item((bucket, name)) for name in page]
        if start + size < len(names):
            listing["nextPageToken"] = base64.b64encode(str(start + size).encode()).decode()
        return _make_json_response(listing)

    def _list_item(self, name: Name) -> dict[str, Any]:
        resource = self.server.blobs[name].to_resource(name)
        return {key: resource[key] for key in resource.keys() - self.server.unlisted_fields}

    def _answer_for_blob(self, operation: Operation) -> _Response:
        blob = self.server.blobs.get(self._name)
        generation = self._query.get("generation")
        if blob is None or generation not in {None, str(blob.generation)}:
            return _make_error_response(404)
        if not self._is_generation_match(blob):
            return _make_error_response(412)
        match operation:
            case "delete":
                del self.server.blobs[self._name]
                return _Response(204)
            case "download":
                return self._send_media(blob)
            case _:
                return _make_json_response(blob.to_resource(self._name))

    def _send_media(self, blob: Blob) -> _Response:
        headers = {
            "Content-Type": blob.content_type,
            "X-Goog-Generation": str(blob.generation),
            "X-Goog-Hash": f"crc32c={_compute_crc32c(blob.content)},md5={_hash_md5(blob.content)}",
            "X-Goog-Stored-Content-Length": str(len(blob.content)),
        }
        if "Range" not in self.headers:
            return _Response(200, blob.content, headers)
        first_byte, _, last_byte = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = blob.content[int(first_byte) : int(last_byte) + 1 if last_byte else None]
        if not part:
            return _make_error_response(416)
        end = int(first_byte) + len(part) - 1
        headers["Content-Range"] = f"bytes {first_byte}-{end}/{len(blob.content)}"
        return _Response(206, part, headers)

    def _store_upload(self, body: bytes) -> _Response:
        if "upload_id" in self._query:
            return self._resume(self.server.sessions[self._query["upload_id"]], body)
        if self._query["uploadType"] == "resumable":
            return self._begin(body)
        if self._query["uploadType"] == "multipart":
            metadata, content_type, content = _parse_parts(self.headers["Content-Type"], body)
            name = (self._name[0], str(metadata["name"]))
            return self._store(name, content, metadata.get("contentType") or content_type)
        name = (self._name[0], self._query["name"])
        return self._store(name, body, self.headers["Content-Type"])

    def _begin(self, body: bytes) -> _Response:
        metadata = json.loads(body or b"{}")
        name = metadata.get("name") or self._query["name"]
        upload_type = self.headers.get("X-Upload-Content-Type") or "application/octet-stream"
        session = _Session((self._name[0], name), upload_type, self._query.get("ifGenerationMatch"))
        upload_id = f"session-{len(self.server.sessions)}"
        self.server.sessions[upload_id] = session
        address = f"{self.server.base_url}{urlsplit(self.path).path}"
        location = f"{address}?uploadType=resumable&upload_id={upload_id}"
        return _Response(200, b"", {"Location": location, "X-GUploader-UploadID": upload_id})

    def _resume(self, session: _Session, body: bytes) -> _Response:
        """Receive a part (`bytes 0-99/*`), the last part (`bytes 100-149/150`), or a query."""
        span, _, total = self.headers["Content-Range"].removeprefix("bytes ").partition("/")
        if span != "*":
            first_byte = int(span.partition("-")[0])
            session.received = session.received[:first_byte] + body
        if total.isdecimal() and len(session.received) == int(total):
            return self._store(
                session.name, session.received, session.content_type, session.precondition
            )
        size = len(session.received)
        return _Response(308, b"", {"Range": f"bytes=0-{size - 1}"} if size else {})

    def _store(
        self, name: Name, content: bytes, content_type: str, precondition: str | None = None
    ) -> _Response:
        current = self.server.blobs.get(name)
        if not self._is_generation_match(current, precondition):
            return _make_error_response(412)
        blob = self.server.put(*name, content, content_type)
        return _make_json_response(blob.to_resource(name))

    def _is_generation_match(self, blob: Blob | None, precondition: str | None = None) -> bool:
        """Return whether the object has the requested generation; 0 requires no object."""
        generation = precondition or self._query.get("ifGenerationMatch")
        return generation is None or int(generation) == (blob.generation if blob else 0)

    @property
    def _segments(self) -> list[str]:
        return urlsplit(self.path).path.rstrip("/").split("/")

    @property
    def _query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    @property
    def _name(self) -> Name:
        """The bucket and the object in `[/download|/upload]/storage/v1/b/BUCKET/o/OBJECT`."""
        parts = self._segments
        bucket_index = parts.index("b") + 1
        return unquote(parts[bucket_index]), unquote("/".join(parts[bucket_index + 2 :]))


def _merge(resource: dict[str, Any], body: dict[str, Any]) -> None:
    """Merge like the JSON API: fields that are not in the body stay."""
    for name, value in body.items():
        if isinstance(value, dict):
            _merge(resource.setdefault(name, {}), value)
        else:
            resource[name] = value


def _parse_parts(content_type: str, body: bytes) -> tuple[dict[str, Any], str, bytes]:
    """Return the metadata, type and content in a `multipart/related` upload."""
    boundary = content_type.partition("boundary=")[2].strip("\"'; ").encode()
    _, metadata, media, _ = body.split(b"--" + boundary)
    head, _, content = media.partition(b"\r\n\r\n")
    upload_type = head.strip().partition(b": ")[2].decode()
    return (
        json.loads(metadata.partition(b"\r\n\r\n")[2]),
        upload_type,
        content.removesuffix(b"\r\n"),
    )


def _make_json_response(value: dict[str, Any]) -> _Response:
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    return _Response(200, json.dumps(value).encode(), headers)


def _make_error_response(status: int) -> _Response:
    """Return an error in Google's format: `{"error": {code, message, errors}}`."""
    error = {
        "code": status,
        "message": f"GoogleApiError: {status}.",
        "errors": [{"reason": "test"}],
    }
    return _Response(status, json.dumps({"error": error}).encode(), {"Content-Type": "text/json"})


def _hash_md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _compute_crc32c(content: bytes) -> str:
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()
