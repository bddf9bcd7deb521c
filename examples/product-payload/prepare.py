"""The trusted side of the product payload: what a record must be, what the source holds, and how many checks fail. Standard library only.

    python prepare.py                         put the source records where the harness finds them (again after an edit of source/)
    python prepare.py check --profile known   print every check of payload.py, without the harness

The harness calls the other modes (docs/design/0002): `describe`, `build` (the job: payload.py becomes a JSON record), `serve` (passes that record on)
and `evaluate` (compares it with schema and source). Nothing of payload.py is ever imported by the process that holds the source.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import sys
from pathlib import Path

METRIC = "failed_checks"
PROFILES = ("known", "unknown")
PRODUCT, UNKNOWN = "PEN-01", "UNKNOWN"
SCHEMA = {"sku": "text", "name": "text", "price": "number", "stock": "whole number"}
PLAIN = "source/{}.json"
MOST_BYTES = 16_384


def data_folder() -> Path:
    """Where the source records lie for the trusted process, which runs in a folder of its own."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ratchet"
    return Path(os.environ.get("RATCHET_DATA") or cache).absolute() / "product-payload"


def install() -> None:
    """Copy the source records and the schema into the data folder."""
    folder = data_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for profile in PROFILES:
        text = (Path(__file__).parent / PLAIN.format(profile)).read_text()
        record = json.loads(text)[PRODUCT]
        if set(record) != set(SCHEMA):
            raise SystemExit(f"{PLAIN.format(profile)}: {PRODUCT} must have exactly the fields {', '.join(SCHEMA)}")
        (folder / f"{profile}.json").write_text(text)
    (folder / "schema.json").write_text(json.dumps(SCHEMA, indent=1) + "\n")
    print(f"source records and schema are in {folder}")


def source(profile: str) -> dict:
    """The source's record of the product."""
    return json.loads((data_folder() / f"{profile}.json").read_text())[PRODUCT]


# The checks: values in, values out.


def well_typed(kind: str, value: object) -> bool:
    """Whether a value has the type that the schema asks for."""
    if kind == "text":
        return isinstance(value, str) and bool(value.strip())
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return whole or (kind == "number" and isinstance(value, float) and 0 <= value < 1e12)


def unsourced(field: str, value: object, truth: object) -> str:
    """What of a value the source does not hold; '' when all of it does. A name may say less than the source, never more."""
    if field != "name":
        return "" if str(value) == str(truth) else f"the source holds {truth!r}"
    words = [word.strip(".,;:!").lower() for word in str(value).split()]
    held = str(truth).lower().split()
    return ", ".join(f"the source does not hold {word!r}" for word in words if word not in held)


def checks_of(payload: dict, truth: dict, profile: str) -> list[dict]:
    """Two checks a field, its type and its source, and one for fields that nobody asked for."""
    found = [_type_check(field, kind, payload.get(field)) for field, kind in SCHEMA.items()]
    found += [_source_check(field, payload.get(field), truth[field], f"{PLAIN.format(profile)}#/{PRODUCT}/{field}") for field in SCHEMA]
    extra = sorted(set(payload) - set(SCHEMA))
    told = f"the fields {', '.join(SCHEMA)} and no other", f"also {', '.join(extra)}"
    return [*found, _check("E_FIELDS", "/", not extra, "schema", *told, "prepare.py#SCHEMA", [_constant(field) for field in SCHEMA])]


def _constant(field: str) -> str:
    """Where a field is set, as a ticket names it."""
    return f"payload.py:{field.upper()}"


def _type_check(field: str, kind: str, value: object) -> dict:
    return _check(
        f"E_{field.upper()}_TYPE",
        f"/{field}",
        well_typed(kind, value),
        "schema",
        f"a {kind}",
        repr(value),
        "prepare.py#SCHEMA",
        [_constant(field)],
    )


def _source_check(field: str, value: object, truth: object, where: str) -> dict:
    name, scope = f"E_{field.upper()}_SOURCE", [_constant(field)]
    if truth == UNKNOWN:
        return _check(
            name,
            f"/{field}",
            False,
            "missing_ground_truth",
            "a value that the source holds",
            f"{value!r}, and the source says {UNKNOWN}",
            where,
            scope,
        )
    wrong = unsourced(field, value, truth)
    return _check(name, f"/{field}", not wrong, "data", f"nothing beyond {truth!r}", f"{value!r}: {wrong}", where, scope)


def _check(name: str, where: str, passed: bool, kind: str, expected: str, actual: str, evidence: str, scope: list[str]) -> dict:
    told = {"expected": expected[:200], "actual": actual[:200], "evidence": evidence}
    return {"name": name, "where": where, "passed": passed, "error_type": kind, "scope": scope, **({} if passed else told)}


# The modes that the harness calls.


class Line:
    """Messages over an inherited socket: one JSON object a line."""

    def __init__(self, name: str) -> None:
        self.socket, self.buffer = socket.socket(fileno=int(os.environ[name])), b""

    def send(self, **message: object) -> None:
        """Send one message."""
        self.socket.sendall(json.dumps(message, allow_nan=False).encode() + b"\n")

    def receive(self, descriptors: int = 0) -> tuple[dict, list[int]]:
        """The next message and the descriptors with it; `EOFError` when the other side hung up or sends no end."""
        found: list[int] = []
        while b"\n" not in self.buffer:
            data, numbers, _, _ = socket.recv_fds(self.socket, 65536, descriptors)
            found += numbers
            if not data or len(self.buffer) > MOST_BYTES:
                raise EOFError("the other side hung up")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line), found


def describe(profile: str) -> None:
    """Say what data there is."""
    paths = [data_folder() / f"{profile}.json", data_folder() / "schema.json"]
    if not all(path.exists() for path in paths):
        raise SystemExit(f"no source records in {data_folder()}; run `python prepare.py` first")
    files = [{"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size} for path in paths]
    print(
        json.dumps(
            {
                "profile": profile,
                "metric": METRIC,
                "data_sha256": files[0]["sha256"],
                "train": str(paths[1]),
                "files": files,
                "unit": "fields of the record",
            }
        )
    )


def build() -> None:
    """The job: the constants of payload.py that the schema names, as a JSON record. It is shown the schema, never the source."""
    line = Line("RATCHET_SOCKET")
    line.receive()
    line.send(ready={})
    _, (schema, record) = line.receive(2)
    with os.fdopen(schema) as file:
        fields = json.load(file)
    import payload

    made = {field: getattr(payload, field.upper()) for field in fields if hasattr(payload, field.upper())}
    with os.fdopen(record, "w") as file:
        json.dump(made, file, allow_nan=False)
    line.send(done={"steps": 1, "tokens": len(fields)})


def serve() -> None:
    """Pass the record on: it is the candidate's, so it is read in a process that holds nothing."""
    line = Line("RATCHET_SOCKET")
    line.receive()
    with os.fdopen(int(os.environ["RATCHET_CHECKPOINT"]), "rb") as file:
        record = file.read(MOST_BYTES)
    line.send(ready={})
    line.receive()
    line.send(payload=json.loads(record))


def evaluate() -> None:
    """The record of one evaluation: how many checks fail, and which."""
    harness, scorer = Line("RATCHET_SOCKET"), Line("RATCHET_SCORER")
    wish = harness.receive()[0]["evaluate"]
    profile, text = wish["profile"], (data_folder() / f"{wish['profile']}.json").read_bytes()
    scorer.send(hello={})
    try:
        scorer.receive()
        harness.send(loaded={})
        scorer.send(payload={})
        payload = scorer.receive()[0]["payload"]
    except (EOFError, ValueError, KeyError, OSError):
        return harness.send(fault={"reason": "scorer_died", "detail": "no record could be read from what the job left"})
    if not isinstance(payload, dict):
        return harness.send(fault={"reason": "short_answer", "detail": "what the job left is no record of fields"})
    checks = checks_of(payload, json.loads(text)[PRODUCT], profile)
    failed = sum(not check["passed"] for check in checks)
    harness.send(record={"token": wish["token"], "value": float(failed), "data_sha256": hashlib.sha256(text).hexdigest(), "checks": checks})
    return None


def check(profile: str) -> None:
    """Print every check of payload.py as it is here."""
    import payload

    made = {field: getattr(payload, field.upper()) for field in SCHEMA if hasattr(payload, field.upper())}
    for one in checks_of(made, source(profile), profile):
        print(f"{'ok    ' if one['passed'] else 'FAILED'}  {one['name']:<15} {one['where']:<7}", end="")
        print("" if one["passed"] else f"  expected {one['expected']}; found {one['actual']}  [{one['error_type']}]")


def main() -> None:
    """Run one mode."""
    parser = argparse.ArgumentParser(description="The trusted side of the product payload.")
    modes = ("install", "check", "describe", "build", "serve", "evaluate")
    parser.add_argument("mode", nargs="?", default="install", choices=modes)
    parser.add_argument("--profile", default="known", choices=PROFILES)
    asked = parser.parse_args()
    if asked.mode in ("check", "describe"):
        return {"check": check, "describe": describe}[asked.mode](asked.profile)
    return {"install": install, "build": build, "serve": serve, "evaluate": evaluate}[asked.mode]()


if __name__ == "__main__":
    sys.exit(main())
