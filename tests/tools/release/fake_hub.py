"""The parts of the hub's API that an upload uses, over a real socket: repositories, tree, preupload, LFS, commit."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlparse

from tests.local_server import served

OID = "0" * 40
LARGE = (".safetensors", ".parquet", ".jsonl")  # what the hub keeps as LFS


@dataclass
class FakeHub:
    """Holds the files of repositories, and forgets nothing that it was asked.

    Attributes:
        repositories: name → files by path.
        private: name → whether it was made private.
        blobs: large files by SHA-256, committed or not.
        breaks: how many more uploads of a blob are cut off in the middle.
        asked: (method, path) of every request.
    """

    token: str
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    breaks: int = 0
    refuses_commits: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        path = urlparse(target).path
        parts = path.strip("/").split("/")
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if "/info/lfs/objects/batch" in path:
            return self.batch(json.loads(body))
        if method == "PUT":
            return self.put(parts[-1], body)
        name = "/".join(parts[2:4])
        if name not in self.repositories:
            return 404, {"error": "Repository not found"}
        files = self.repositories[name]
        if len(parts) == 4 or parts[4] == "revision":
            return 200, {"id": name, "sha": OID, "siblings": [{"rfilename": each} for each in files]}
        if parts[4] == "tree":
            return 200, [self.entry(each, content) for each, content in sorted(files.items())]
        if parts[4] == "preupload":
            return 200, {"files": [self.mode(each, files) for each in json.loads(body)["files"]]}
        if parts[4] == "commit":
            return self.commit(name, body)
        return 404, {"error": f"unknown: {method} {path}"}

    def create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
        known = name in self.repositories
        self.repositories.setdefault(name, {".gitattributes": b"*.safetensors filter=lfs"})
        self.private.setdefault(name, asked.get("visibility") == "private" or bool(asked.get("private")))
        kind = "" if asked.get("type", "model") == "model" else "datasets/"
        return (409 if known else 200), {"url": f"{self.url}/{kind}{name}", "error": "exists already"}

    def entry(self, path: str, content: bytes) -> dict[str, Any]:
        told: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": git_hash(content)}
        if path.endswith(LARGE):
            sha = hashlib.sha256(content).hexdigest()
            told["lfs"] = {"oid": sha, "size": len(content), "pointerSize": 130}
        return told

    def mode(self, asked: dict[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
        path, large = asked["path"], asked["path"].endswith(LARGE)
        told = {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": None}
        if path in files:
            content = files[path]
            told["oid"] = hashlib.sha256(content).hexdigest() if large else git_hash(content)
        return told

    def batch(self, asked: dict[str, Any]) -> tuple[int, Any]:
        objects = []
        for each in asked["objects"]:
            told = {"oid": each["oid"], "size": each["size"]}
            if each["oid"] not in self.blobs:
                told["actions"] = {"upload": {"href": f"{self.url}/blob/{each['oid']}", "header": {}}}
            objects.append(told)
        return 200, {"transfer": "basic", "objects": objects}

    def put(self, oid: str, body: bytes) -> tuple[int, Any]:
        if self.breaks:
            self.breaks -= 1
            return 403, {"error": "the link has expired"}
        if hashlib.sha256(body).hexdigest() != oid:
            return 400, {"error": "wrong content"}
        self.blobs[oid] = body
        self.sent.append(oid)
        return 200, {}

    def commit(self, name: str, body: bytes) -> tuple[int, Any]:
        if self.refuses_commits:
            self.refuses_commits -= 1
            return 403, {"error": "try again later"}
        files = self.repositories[name]
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
                self.sent.append(value["path"])
            elif item["key"] == "lfsFile":
                files[value["path"]] = self.blobs[value["oid"]]
            else:
                assert item["key"] == "header", item
        return 200, {"commitUrl": f"{self.url}/{name}/commit/{OID}", "commitOid": OID, "success": True}


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Serves the hub on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.read_body()
            hub.asked.append((self.command, self.path))
            allowed = (
                self.path.startswith("/blob/") or self.headers.get("Authorization") == f"Bearer {hub.token}"
            )
            status, content = (
                hub.answer(self.command, self.path, body) if allowed else (401, {"error": "Invalid token"})
            )
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Content-Type", "application/json")
            if status >= 400:
                self.send_header("X-Error-Message", str(content.get("error")))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def read_body(self) -> bytes:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as url:
        hub.url = url
        yield hub
