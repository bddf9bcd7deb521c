"""The exception tree. Each leaf says whose fault it is and which exit code the command line gives it.

    RatchetError
    ├── UserFault               2   something the user can fix; one sentence: what, where, what to do
    │   ├── RulesInvalid        2   the `toml rules` block of program.md
    │   ├── RepositoryUnfit     2   the git repository cannot carry a study
    │   ├── StudyExists         2   the tag is taken
    │   ├── StudyUnknown        2   no such study or trial
    │   └── DataMissing         2   prepare.py has no usable data
    ├── ModelUnavailable            the model cannot be asked now: an event; the device goes on as program.md says
    ├── ProposalRefused             the proposal may not run: an event, never a trial
    ├── InfrastructureFault     75  machine, launcher, device: never charged to an idea
    │   ├── Locked              75  another harness holds the study or the device
    │   ├── DeviceLost          75  the driver no longer has the device
    │   ├── FileChanged         75  a file that numbers depend on changed during the study
    │   └── StorageFault        74  a write to disk or git failed
    ├── ProtocolFault               (execution/channel.py) the other side of a socket broke the contract; becomes an outcome
    ├── JournalCorrupt          65  the one truth cannot be trusted; nothing was changed
    └── BranchMoved             66  someone else moved the study's branch; nothing was forced

A candidate's own faults are not exceptions: they are the status and reason of its `JobOutcome` or `Verdict`.
"""

from __future__ import annotations

from datetime import datetime


class RatchetError(Exception):
    """Base of everything this package raises on purpose."""

    exit_code = 1


class UserFault(RatchetError):
    """Something the user can fix, said in one sentence."""

    exit_code = 2


class RulesInvalid(UserFault):
    """The rules block of program.md cannot be used; `line` is 1-based in program.md, 0 when no line applies."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class RepositoryUnfit(UserFault):
    """The git repository cannot carry a study as it is."""


class StudyExists(UserFault):
    """A study of that tag is already there."""


class StudyUnknown(UserFault):
    """No study or trial of that name."""


class DataMissing(UserFault):
    """The prepared data is missing or damaged."""


class ProposalRefused(RatchetError):
    """The proposal may not run; `reason` is a short code, `cost_usd` what asking for it cost, where it is known."""

    def __init__(self, reason: str, message: str, earlier: int | None = None, cost_usd: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.earlier = earlier
        self.cost_usd = cost_usd


class ModelUnavailable(RatchetError):
    """The model cannot be asked: a limit, an outage, a missing key. `until` is its return, if anyone knows it; `backoff` says that the outage
    may pass by itself.
    """

    def __init__(self, reason: str, message: str, until: datetime | None = None, backoff: bool = False) -> None:
        super().__init__(message)
        self.reason, self.until, self.backoff = reason, until, backoff


class InfrastructureFault(RatchetError):
    """The machine, the launcher or the device failed; no idea is to blame."""

    exit_code = 75


class Locked(InfrastructureFault):
    """Another live process holds the lock."""


class DeviceLost(InfrastructureFault):
    """The driver says that the device is gone or must be reset."""


class FileChanged(InfrastructureFault):
    """A fixed file is not what the study began with; the message names it and both digests."""


class StorageFault(InfrastructureFault):
    """A durable write failed; the record counts as not written."""

    exit_code = 74


class JournalCorrupt(RatchetError):
    """The journal has a line that is damaged, out of its place, or of another version."""

    exit_code = 65


class BranchMoved(RatchetError):
    """The study's branch is at a commit that the journal does not know."""

    exit_code = 66
