"""Keys that an agent is given, kept out of everything that is stored of it. Knows the key itself and its common spellings, no more."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote

from harness.proposers.records import Said

MIN_CHARS = 8  # what is shorter is a setting; to take it out would garble the text
NO_SECRETS = frozenset({"HOME", "PATH"})
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
HIDDEN = b"[key removed]"
DROPPED = b"[earlier output dropped]\n"


class Secrets:
    """The values of `given`, and proxies with a password."""

    def __init__(self, given: Mapping[str, str]) -> None:
        values = {value for name, value in given.items() if len(value) >= MIN_CHARS and name not in NO_SECRETS}
        values |= {os.environ[name] for name in PROXIES if "@" in os.environ.get(name, "")}
        spelled = {form.encode("utf-8", "surrogateescape") for value in values for form in _forms(value)}
        self._forms = sorted(spelled, key=len, reverse=True)

    def hide(self, data: bytes) -> bytes:
        """The data with every key taken out, also the rest of one that a capped log cut through."""
        for form in self._forms:
            data = data.replace(form, HIDDEN)
        if self._forms and data.startswith(DROPPED):
            data = DROPPED + data[len(DROPPED) + len(self._forms[0]) :]
        return data

    def hide_text(self, text: str) -> str:
        """The same for text, once more after it was decoded and cleaned: what was apart before may stand together now."""
        return self.hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def hidden(self, said: Said) -> Said:
        """The words of an agent without keys."""
        return replace(
            said, text=self.hide_text(said.text), model=self.hide_text(said.model) if said.model else None, fault=self.hide_text(said.fault)
        )

    def found_in(self, texts: Iterable[str]) -> bool:
        """One of them has a key."""
        return any(form in text.encode("utf-8", "surrogatepass") for text in texts for form in self._forms)


def _forms(value: str) -> set[str]:
    coded = base64.b64encode(value.encode("utf-8", "surrogateescape")).decode().rstrip("=")
    return {value, json.dumps(value)[1:-1], quote(value, safe="", errors="surrogateescape"), coded[: len(coded) // 4 * 4]}
