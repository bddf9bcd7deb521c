"""A hub on loopback, as the real one answers: a redirect that states size and digest, then the bytes; and the ways in which it fails."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hub:
    """Files by name; `faults` by name, one an answer: `cut:N`, `code:NNN`, `code:NNN:after`, `garbled`, `longer`, `no range`, `other range`."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    redirects: bool = True
    elsewhere: str = "/cdn/"
    states: bool = True
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    base: str = ""


class _Answers(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        hub, name = self.hub, self.path.rpartition("/")[2]
        hub.seen.append((self.command, self.path, self.headers.get("Range")))
        content = hub.files.get(name)
        if content is None:
            self._send(404)
        elif hub.redirects and "/cdn/" not in self.path:
            digest = hub.digests.get(name) or hashlib.sha256(content).hexdigest()
            stated = {"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{digest}"'} if hub.states else {}
            self._send(302, {"Location": f"{hub.elsewhere}{name}", **stated})
        else:
            faults = hub.faults.get(name, [])
            self._body(content, faults.pop(0) if body and faults else "", body)

    def _body(self, content: bytes, fault: str, body: bool) -> None:
        if fault.startswith("code:"):
            _, code, *after = fault.split(":")
            self._send(int(code), {"Retry-After": after[0]} if after else {})
            return
        begin = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        begin = 0 if fault == "no range" else begin
        part = content[begin:] + (b"more" if fault == "longer" else b"")
        part = part.translate(bytes(range(255, -1, -1))) if fault == "garbled" else part
        said = {"Content-Range": f"bytes {begin + (fault == 'other range')}-{len(content) - 1}/{len(content)}"} if begin else {}
        self._send(206 if begin else 200, said, part, int(fault.partition(":")[2]) if fault.startswith("cut:") else len(part), body)

    def _send(self, code: int, headers: dict[str, str] | None = None, body: bytes = b"", sent: int = 0, with_body: bool = True) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body[:sent])
        self.close_connection = True


class _Server(ThreadingHTTPServer):
    request_queue_size = 64


@contextmanager
def hub(**files: bytes) -> Iterator[Hub]:
    """Serve these files; a name may be given without its ending `.parquet`."""
    stub = Hub(files={f"{name}.parquet": content for name, content in files.items()})
    server = _Server(("127.0.0.1", 0), type("Answers", (_Answers,), {"hub": stub}))
    stub.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
