"""The environment of an agent: an allow-list of the person's variables, the adapter's own, and the keys that it is given by name."""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.proposers import agents
from harness.proposers.workroom import Workroom

INHERITED = (
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
    "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY",
    "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
)  # fmt: skip


def of(kind: str, room: Workroom, marker: str, given: Mapping[str, str]) -> dict[str, str]:
    """Variables for one call. No device: an agent has nothing to train."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own = {"TMPDIR": str(room.scratch), "GIT_CEILING_DIRECTORIES": str(room.place), "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1", "TERM": "dumb",
           "PYTHONDONTWRITEBYTECODE": "1", "RATCHET_JOB": marker}  # fmt: skip
    return {**kept, **own, **agents.ADAPTERS[kind].environment, **given}
