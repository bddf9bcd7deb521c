"""Any headless CLI agent, run once for each proposal, in a throw-away folder of its own (workroom.py).

A proposal is what changed in the files, never what the agent said or how it exited; its record (records.py) only adds words, model and cost. The agent sees
an allow-list of variables and the keys it is given by name. It runs as the user, with the user's own HOME, because that is where its login lies: the harness
takes away what it can, but this is no sandbox. What was asked and said is kept, without the keys, in a folder a proposal.
"""

from __future__ import annotations

import difflib
import json
import re
import secrets
import select
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from harness.artifacts import durable
from harness.artifacts.call_events import Bill, Estimate
from harness.errors import ModelUnavailable, ProposalRefused, UserFault
from harness.execution.clock import Clock, SystemClock
from harness.execution.process import ProcessTree, boot_id
from harness.proposers import agents, surroundings, told, troubles
from harness.proposers.exchange import in_a_line
from harness.proposers.fates import wait_seconds
from harness.proposers.fence import clean, flat
from harness.proposers.metering import Meter
from harness.proposers.protocol import Briefing
from harness.proposers.records import Said
from harness.proposers.secret import Secrets
from harness.proposers.workroom import Workroom, end_left_over, start_of
from harness.trial import Proposal

POLL_SECONDS = 0.05
LOOK_SECONDS = 0.25
MAX_ARGUMENT = 128 * 1024 - 1  # of one argument, by Linux
HOLES = re.compile(r"\{(prompt_file|workdir|output_file|prompt)\}")
STDIN = "<{prompt_file}"
FEED = "import os, sys\nos.dup2(os.open(sys.argv[1], os.O_RDONLY), 0)\nos.execvp(sys.argv[2], sys.argv[2:])"
LATE = {
    "agent_timeout": "the agent was not done in {wall:g} s",
    "agent_silent": "the agent neither printed nor wrote anything for {silence:g} s",
    "interrupted": "the study was interrupted while the agent worked",
}


@dataclass(frozen=True)
class _Call:
    """How one call ended, and what it said: `late` is empty or the reason why it was ended."""

    late: str
    exit_code: int
    seconds: float
    said: Said
    tail: str


class Command:
    """The proposer that asks an agent. `template` is a list of words without a shell; a word `<{prompt_file}` makes the prompt its standard input."""

    name = "command"
    reads = True

    def __init__(
        self,
        template: tuple[str, ...],
        adapter: str,
        folder: Path,
        wall_seconds: float,
        silence_seconds: float,
        output_cap_kb: int,
        environment: Mapping[str, str],
        interrupted: Callable[[], str],
        meter: Meter,
        call_dollars: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not template or template[0] == STDIN:
            raise UserFault("the command of an agent has no word; write it as a list, its program first")
        if adapter not in agents.ADAPTERS:
            near = difflib.get_close_matches(adapter, agents.ADAPTERS, n=1, cutoff=0.0)[0]
            raise UserFault(f"no adapter {adapter!r}; did you mean {near!r}? There are: {', '.join(agents.ADAPTERS)}")
        self._template, self._kind, self._folder = template, adapter, folder
        self._wall, self._silence, self._cap = wall_seconds, silence_seconds, output_cap_kb * 1024
        self._given, self._interrupted = dict(environment), interrupted
        self._meter, self._most = meter, call_dollars
        self._clock = clock or SystemClock()
        self._secrets = Secrets(environment)

    def propose(self, briefing: Briefing) -> Proposal:
        """What the agent made of the files in scope; `ProposalRefused` when that is nothing or cannot be read, never `None`."""
        folder = self._fresh(briefing.number)
        assert briefing.page is not None, "it reads"
        prompt = (briefing.page.text() + agents.HOW).replace("\0", "").encode("utf-8", "replace").decode()
        durable.replace(folder / "prompt.md", self._secrets.hide(prompt.encode()))
        room = Workroom(briefing.files, prompt, agents.ADAPTERS[self._kind].repository)
        try:
            call = self._metered(briefing, room, folder, prompt)
            if call.late:
                limits = LATE[call.late].format(wall=self._wall, silence=self._silence)
                named = f" ({call.said.fault})" if call.said.fault else ""
                raise ProposalRefused(call.late, f"{limits}{named}; it said: {call.tail}", cost_usd=call.said.cost_usd)
            files = self._changes(room, call)
        finally:
            room.drop()
            (folder / "running.json").unlink(missing_ok=True)
        return self._proposal(briefing, call, files)

    def _metered(self, briefing: Briefing, room: Workroom, folder: Path, prompt: str) -> _Call:
        """The call, announced and settled; what it cost is unknown when it ended by a fault of ours."""
        marker = f"agent-{secrets.token_hex(8)}"
        environment = surroundings.of(self._kind, room, marker, self._given)
        argv = self._argv(room, prompt, environment)
        left = self._meter.seconds_left()
        if left is not None and left <= 0:
            raise ModelUnavailable("time", "no time is left for another call and a trial")
        number = self._meter.ask(Estimate(proposal=briefing.number, proposer=self.name, dollars=self._most))
        bill = Bill(outcome="failed")
        try:
            call = self._call(room, folder, argv, environment, self._wall if left is None else min(self._wall, left))
            said = call.said
            bill = Bill(
                outcome=call.late or "ended", detail=said.fault, model=said.model, usage=said.usage, tokens=sum(said.usage.values()) or None,
                cost_usd=said.cost_usd,
            )  # fmt: skip
        finally:
            self._meter.settle(number, bill)
        return call

    def _changes(self, room: Workroom, call: _Call) -> dict[str, str | None]:
        """What is new in the room; a refusal to take it still says what the call cost."""
        try:
            files = room.changes()
        except ProposalRefused as refusal:
            refusal.cost_usd = call.said.cost_usd
            raise
        if self._secrets.found_in([*files, *(text or "" for text in files.values())]):
            said = "the agent wrote one of its keys into a file; nothing of it was taken"
            raise ProposalRefused("secret", said, cost_usd=call.said.cost_usd)
        return files

    def _proposal(self, briefing: Briefing, call: _Call, files: dict[str, str | None]) -> Proposal:
        if not files and (reason := troubles.of(call.said.fault)):
            wait = wait_seconds({}, f"{call.said.fault} {call.said.text}", self._clock.now())
            until = None if wait is None else self._clock.now() + timedelta(seconds=wait)
            raise ModelUnavailable(
                reason, f"the agent's own record says {call.said.fault}", until, backoff=reason not in troubles.FOR_A_PERSON
            )
        replicates = told.replication(call.said.text)
        if not files and replicates is None:
            why = f"exit code {call.exit_code}" + (f", {call.said.fault}" if call.said.fault else "")
            raise ProposalRefused("no_change", f"the agent changed no file ({why}); it said: {call.tail}", cost_usd=call.said.cost_usd)
        words = told.answer(call.said.text)
        if call.exit_code:
            words["hypothesis"] = f"{words.get('hypothesis', '')} [the agent ended with exit code {call.exit_code}]".strip()
        return Proposal(
            id=briefing.number, parent=briefing.incumbent, title=words.pop("title", "") or f"an edit by {self._kind}", **words,
            replicates=replicates,
            edit=in_a_line(briefing.files, files), files=files, proposer=self.name, model=call.said.model, usage=call.said.usage,
            cost_usd=call.said.cost_usd,
        )  # fmt: skip

    def _fresh(self, number: int) -> Path:
        """An empty folder for this call. What a killed harness left running of the same one is ended; what an earlier call left stays, aside."""
        folder = self._folder / f"{number:06d}"
        end_left_over(folder)
        if folder.exists():
            folder.rename(folder.with_name(f"{folder.name}.{len(list(self._folder.glob(f'{folder.name}*')))}"))
        folder.mkdir(parents=True)
        return folder

    def _call(self, room: Workroom, folder: Path, argv: list[str], environment: Mapping[str, str], wall: float) -> _Call:
        began = self._clock.monotonic()
        tree = ProcessTree(argv, room.work, environment, room.log, self._cap, [])
        code, late = -1, "interrupted"
        try:
            marker = environment["RATCHET_JOB"]
            running = {"pid": tree.pid, "started": tree.started, "boot": boot_id(), "marker": marker, "place": str(room.place)}
            durable.replace(folder / "running.json", json.dumps(running).encode())
            late = self._follow(tree, room, wall)
        finally:
            code = tree.end()
            call = self._read(room, folder, late, code, self._clock.monotonic() - began)
        return call

    def _follow(self, tree: ProcessTree, room: Workroom, wall: float) -> str:
        """Wait for the agent's end; the reason when it has to be ended, else ''."""
        began = heard = looked = self._clock.monotonic()
        seen = room.activity()
        while True:
            select.select(tree.sources(), [], [], POLL_SECONDS)
            tree.drain()
            if tree.poll() is not None:
                return ""
            if self._interrupted():
                return "interrupted"
            now = self._clock.monotonic()
            if now - began > wall:
                return "agent_timeout"
            if now - looked > LOOK_SECONDS:
                looked, before, seen = now, seen, room.activity()
                heard = heard if seen == before else now
            if now - heard > self._silence:
                return "agent_silent"

    def _read(self, room: Workroom, folder: Path, late: str, code: int, seconds: float) -> _Call:
        """Keep what the agent printed and said, without the keys."""
        output = self._secrets.hide(start_of(room.log, 3 * self._cap))
        durable.replace(folder / "output.txt", output)
        text = output.decode("utf-8", "replace")
        last = self._secrets.hide(start_of(room.last, self._cap)).decode("utf-8", "replace")
        said = self._secrets.hidden(agents.read(self._kind, text, last))
        tail = flat(said.text[-300:], 300) or flat(self._secrets.hide_text(clean(agents.prose(self._kind, text)))[-300:], 300) or "nothing"
        facts = {
            "late": late,
            "exit_code": code,
            "seconds": round(seconds, 3),
            "adapter": self._kind,
            "command": self._template,
            **asdict(said),
        }
        record = json.dumps(facts, indent=1, allow_nan=False).encode()
        durable.replace(folder / "record.json", self._secrets.hide(record) + b"\n")
        return _Call(late, code, seconds, said, tail)

    def _argv(self, room: Workroom, prompt: str, environment: Mapping[str, str]) -> list[str]:
        values = {"prompt_file": str(room.prompt), "workdir": str(room.work), "output_file": str(room.last), "prompt": prompt}
        words = [HOLES.sub(lambda hole: values[hole.group(1)], word) for word in self._template if word != STDIN]
        if max(len(word.encode()) for word in words) > MAX_ARGUMENT:
            raise ProposalRefused(
                "prompt_too_long",
                "the prompt is too long for an argument; give the agent {prompt_file}, or <{prompt_file} as its standard input",
            )
        found = shutil.which(words[0], path=environment.get("PATH"))
        if found is None:
            said = f"the agent {words[0]!r} is not found; install it, or correct its command in program.md"
            raise ModelUnavailable("no_agent", said, backoff=True)
        words[0] = str(Path(found).absolute())
        return [sys.executable, "-I", "-S", "-c", FEED, str(room.prompt), *words] if STDIN in self._template else words
