"""Headless CLI agents by name: the command that runs each unattended, what it needs around it, and how its answer is read.

The default commands ask nobody, offer no shell and no network tool where the agent can be told so, and let it edit only the files in scope. That is
good manners, not containment: what counts is what workroom.py reads back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.proposers import records
from harness.proposers.fence import clean, flat
from harness.proposers.records import Said

PRINTED = frozenset({"plain", "aider"})  # they print text, the others records
ANSWER_CHARS = 20_000

HOW = """
# How to send it

You are in a folder that holds only the files in scope and this page. Edit the files in scope, in place: any other file that is new, changed or gone makes
the whole proposal void. Do not run them, there is no data here. Nobody answers questions: decide yourself. You have one go; only the edit counts, not what you say
of it. End with one message of five lines: `title: …`, `hypothesis: …`, `axis: …`, `expected_effect: …`, `refuted_if: …`. Instead
of an edit a line `replication_of: 17` asks for trial 17 once more, with another seed.
"""


@dataclass(frozen=True)
class Adapter:
    """One kind of agent. `template` is its default command, `repository` says that it wants a git repository around it."""

    read: Callable[[str], Said]
    template: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    repository: bool = False


ADAPTERS = {
    "plain": Adapter(records.plain),
    "claude": Adapter(
        records.claude,
        ("claude", "-p", "--output-format", "stream-json", "--verbose", "--restricted", "--safe-mode", "--strict-mcp-config",
         "--no-session-persistence", "--tools", "Read,Edit", "--permission-mode", "dontAsk", "--allowedTools", "Read,{edits}", "<{prompt_file}"),
        {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    ),
    "codex": Adapter(
        records.codex,
        ("codex", "exec", "--json", "--color", "never", "--ephemeral", "--ignore-user-config", "--ignore-rules", "-s", "workspace-write",
         "-c", "features.plugins=false", "-c", "features.apps=false", "-c", "analytics.enabled=false", "-c", 'web_search="disabled"',  # else it calls home
         "-C", "{workdir}", "-o", "{output_file}", "-", "<{prompt_file}"),
        repository=True,
    ),
    "gemini": Adapter(
        records.gemini,
        ("gemini", "--output-format", "stream-json", "--approval-mode", "auto_edit", "--skip-trust", "-p", "Do what is asked above.",
         "<{prompt_file}"),
    ),
    "opencode": Adapter(
        records.opencode,
        ("opencode", "run", "--format", "json", "<{prompt_file}"),
        {"OPENCODE_CONFIG_CONTENT": '{"permission": {"*": "deny", "read": "allow", "edit": "allow"}, "share": "disabled", "autoupdate": false}'},
    ),
    "aider": Adapter(
        records.aider,
        ("aider", "--message-file", "{prompt_file}", "--yes-always", "--no-git", "--no-auto-commits", "--no-suggest-shell-commands",
         "--no-detect-urls", "--no-check-update", "--analytics-disable", "--no-pretty", "{files}"),
    ),
}  # fmt: skip


def default_template(adapter: str, files: tuple[str, ...] = ("train.py",)) -> tuple[str, ...]:
    """The command that runs this agent unattended on `files`; empty for `plain`, of which nothing is known."""
    command: list[str] = []
    for part in ADAPTERS[adapter].template:
        command += files if part == "{files}" else [part.replace("{edits}", ",".join(f"Edit({name})" for name in files))]
    return tuple(command)


def read(adapter: str, output: str, last: str = "") -> Said:
    """What the agent said, from its output and, where that has no message, from the file `last` that it was told to write."""
    said = ADAPTERS[adapter].read(output)
    text = clean((said.text.strip() or last.strip())[-ANSWER_CHARS:])
    return Said(text, flat(said.model or "", 100) or None, said.usage, said.cost_usd, flat(said.fault, 200))


def prose(adapter: str, output: str) -> str:
    """What of the output a person can read: all of it, or what stands between the records of an agent that prints records."""
    if adapter in PRINTED:
        return output
    return "\n".join(line for line in output.split("\n") if not line.startswith("{"))
