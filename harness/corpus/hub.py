"""Files from the hub: in parallel, resumed where they were cut, checked against what the hub states, under their own name only when whole.

Only the standard library; proxies of the environment are used. No token is read or sent: the data is public.
"""

from __future__ import annotations

import http.client
import os
import random
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.corpus import CorpusError, file_sha256, progress

ENDPOINT = "https://huggingface.co"
WORKERS = 8
TRIES = 6
LONGEST_WAIT = 120.0
TIMEOUT = 30.0
BLOCK = 1 << 20
REDIRECTS = (301, 302, 303, 307, 308)
PASSING = (408, 425, 429, 500, 502, 503, 504)
LOST = (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError)


@dataclass(frozen=True)
class Stated:
    """What the hub says of a file before it sends it."""

    size: int
    sha256: str | None


class _TryAgain(Exception):
    """What went wrong in one try, and how long the server asks to wait."""

    def __init__(self, said: str, after: float = 0.0) -> None:
        super().__init__(said)
        self.after = after


class _AsTheyAre(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by hand: the hub states size and digest in the first answer, before it sends us elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        """Never by itself."""


def address(dataset: str, revision: str) -> str:
    """Where the files of a dataset are, at $HF_ENDPOINT when that names a mirror."""
    endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    try:
        parts = urllib.parse.urlsplit(endpoint)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        sound = False
    if not sound:
        raise CorpusError(f"HF_ENDPOINT is {endpoint!r}, which is no web address; write it as https://host")
    return f"{endpoint}/datasets/{dataset}/resolve/{revision}"


def fetch(base: str, names: Sequence[str], folder: Path, sleep: Callable[[float], Any] | None = None) -> None:
    """Bring every file that is not in the folder yet. Raises CorpusError that names the first file which cannot be had."""
    missing = [name for name in names if not (folder / name).exists()]
    if not missing:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fetch_all(base, missing, folder, sleep)
    except OSError as error:
        raise CorpusError(f"{folder} cannot be written: {error}") from error


def _fetch_all(base: str, names: Sequence[str], folder: Path, sleep: Callable[[float], Any] | None) -> None:
    stop = threading.Event()
    wait = stop.wait if sleep is None else sleep
    with ThreadPoolExecutor(min(WORKERS, len(names))) as pool, _stopping(stop, pool):
        stated = list(pool.map(lambda name: _patiently(f"{base}/{name}", wait, _state), names))
        with progress.bar(f"fetching {len(names)} files from {base}", sum(one.size for one in stated), in_bytes=True) as advance:
            going = _unless(stop, advance)
            jobs = [pool.submit(_whole, f"{base}/{name}", folder / name, one, going, wait) for name, one in zip(names, stated, strict=True)]
            for job in as_completed(jobs):
                job.result()


@contextmanager
def _stopping(stop: threading.Event, pool: ThreadPoolExecutor) -> Iterator[None]:
    """What ends the work early, an error or Ctrl-C, also ends the other threads."""
    try:
        yield
    except BaseException:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _unless(stop: threading.Event, advance: Callable[[int], None]) -> Callable[[int], None]:
    def going(more: int) -> None:
        if stop.is_set():
            raise CorpusError("stopped")
        advance(more)

    return going


def _whole(url: str, target: Path, stated: Stated, advance: Callable[[int], None], sleep: Callable[[float], Any]) -> None:
    part = target.with_name(f".{target.name}.part")
    _patiently(url, sleep, lambda address: _receive(address, part, stated, advance))
    part.replace(target)


def _patiently(url: str, sleep: Callable[[float], Any], act: Callable[[str], Any]) -> Any:
    """Up to `TRIES` times, waiting longer each time, or as long as the server asks."""
    name = url.rpartition("/")[2]
    for n in range(TRIES):
        try:
            return act(url)
        except _TryAgain as problem:
            said, wait = str(problem), max(problem.after, 2.0**n * random.uniform(0.75, 1.25))
        if n + 1 < TRIES:
            sleep(min(wait, LONGEST_WAIT))
    raise CorpusError(f"{name} could not be fetched from {url}: {said} ({TRIES} tries); without a network use --from DIR")


def _state(url: str) -> Stated:
    answer, headers = _open(url, "HEAD", {}, until_stated=True)
    answer.close()
    size, tag = headers.get("X-Linked-Size") or headers.get("Content-Length"), (headers.get("X-Linked-Etag") or "").strip('W/"').lower()
    if size is None or not size.isdigit():
        raise CorpusError(f"{url.rpartition('/')[2]}: {url} does not state how large it is")
    if int(size) == 0:
        raise CorpusError(f"{url.rpartition('/')[2]}: {url} is empty, 0 bytes")
    return Stated(int(size), tag if len(tag) == 64 and set(tag) <= set("0123456789abcdef") else None)


def _receive(url: str, part: Path, stated: Stated, advance: Callable[[int], None]) -> None:
    """Add to the part what is missing, then check it; a part that cannot become the file is dropped."""
    have = part.stat().st_size if part.exists() and stated.sha256 else 0  # without a digest nothing says that both halves are of one file
    if have < stated.size:
        answer, _ = _open(url, "GET", {"Range": f"bytes={have}-"} if have else {})
        with answer:
            goes_on = answer.status == 206 and str(answer.headers.get("Content-Range")).startswith(f"bytes {have}-")
            if answer.status == 206 and not goes_on:
                part.unlink()
                raise _TryAgain("the server sent another part than was asked for")
            have = _copy(answer, part, have if goes_on else 0, stated.size, advance)
    if have < stated.size:
        raise _TryAgain(f"the connection was cut after {have:,} of {stated.size:,} bytes")
    found = file_sha256(part)
    if have > stated.size or found != (stated.sha256 or found):
        part.unlink()
        more = (
            f"it is {have:,} bytes or more, not {stated.size:,}" if have > stated.size else f"its SHA-256 is {found}, not {stated.sha256}"
        )
        raise _TryAgain(f"{more} as the hub states")


def _copy(answer: Any, part: Path, have: int, most: int, advance: Callable[[int], None]) -> int:
    """Write what comes after the first `have` bytes; ends soon after `most`. Gives the bytes there are then."""
    with part.open("r+b" if have else "wb") as file:
        file.seek(have)
        try:
            while have <= most and (block := answer.read(BLOCK)):
                file.write(block)
                have += len(block)
                advance(len(block))
        except LOST as error:
            raise _TryAgain(f"the connection was lost after {have:,} of {most:,} bytes: {error}") from error
        finally:
            file.flush()
            os.fsync(file.fileno())
    return have


def _open(url: str, method: str, headers: dict[str, str], until_stated: bool = False) -> tuple[Any, Any]:
    """The answer at the end of the redirects, and the headers that state size and digest if any answer on the way had them."""
    opener, name, stated = urllib.request.build_opener(_AsTheyAre), url.rpartition("/")[2], None
    for _ in range(6):
        request = urllib.request.Request(url, method=method, headers={"Accept-Encoding": "identity", "User-Agent": "ratchet", **headers})
        try:
            answer = opener.open(request, timeout=TIMEOUT)
            return answer, stated or answer.headers
        except urllib.error.HTTPError as error:
            if error.code not in REDIRECTS or not error.headers.get("Location"):
                raise _refusal(name, url, error) from None
            stated = stated or (error.headers if error.headers.get("X-Linked-Size") else None)
            if stated and until_stated:
                return error, stated
            url = urllib.parse.urljoin(url, error.headers["Location"])
            error.close()
            if not url.startswith(("http://", "https://")):
                raise CorpusError(f"{name}: the hub redirects to {url[:100]}, which is no web address") from None
        except LOST as error:
            raise _TryAgain(str(error)) from error
    raise CorpusError(f"{name}: {url} redirects without end")


def _refusal(name: str, url: str, error: urllib.error.HTTPError) -> Exception:
    error.close()
    if error.code not in PASSING:
        return CorpusError(f"{name} could not be fetched: {url} answers {error.code} {error.reason}")
    after = error.headers.get("Retry-After", "")
    return _TryAgain(f"the server answers {error.code} {error.reason}", float(after) if after.isdigit() else 0.0)
