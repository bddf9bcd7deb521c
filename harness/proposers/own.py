"""A proposer of the person's own, from a file: loaded, and its faults turned into sentences. It runs in the harness's process, trusted as the harness is."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import ProposalRefused, UserFault
from harness.proposers.protocol import Briefing
from harness.trial import Proposal

NAME = re.compile(r"\.py:\w+$")
FAULTS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError, LookupError, NameError, OSError, RuntimeError, SyntaxError,
    TypeError, ValueError,
)  # fmt: skip


class Own:
    """Around the person's object: what it lets through is a proposal for this turn, what it raises is a refusal that names its line."""

    def __init__(self, made: Any, where: str) -> None:
        self._made, self._where = made, where
        self.name = str(getattr(made, "name", where))
        self.reads = bool(getattr(made, "reads", False))

    def propose(self, briefing: Briefing) -> Proposal | None:
        """The person's answer, checked."""
        try:
            proposal = self._made.propose(briefing)
        except FAULTS as error:
            raise ProposalRefused("own_proposer", _told(error)) from error
        if proposal is None:
            return None
        if not isinstance(proposal, Proposal):
            raise ProposalRefused(
                "own_proposer", f"{self._where} returned a {type(proposal).__name__}, not a harness.trial.Proposal or None"
            )
        if (proposal.id, proposal.parent) != (briefing.number, briefing.incumbent):
            raise ProposalRefused("own_proposer", f"{self._where} must take id from briefing.number and parent from briefing.incumbent")
        return proposal


def load(name: str) -> Callable[[Any], Own]:
    """What makes it from a `Setting`; `name` is `FILE.py:CLASS`. A file or class that cannot be used is a `UserFault`."""
    path, _, attribute = name.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"ratchet_own_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UserFault(f"--proposer {name}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    if str(Path(path).parent) not in sys.path:
        sys.path.append(str(Path(path).parent))
    try:
        spec.loader.exec_module(module)
    except FAULTS as error:
        raise UserFault(f"--proposer {name}: {path} cannot be imported: {_told(error)}") from error
    made = getattr(module, attribute, None)
    if not callable(made) or not callable(getattr(made, "propose", None)):
        raise UserFault(f"--proposer {name}: {path} has no class {attribute} with a method propose(briefing)")

    try:
        inspect.signature(made).bind(None)
    except (TypeError, ValueError) as error:
        raise UserFault(f"--proposer {name}: {attribute} must take one argument, the setting: {error}") from None

    def make(setting: Any) -> Own:
        try:
            return Own(made(setting), f"{Path(path).name}:{attribute}")
        except FAULTS as error:
            raise UserFault(f"--proposer {name}: {attribute}(setting) failed: {_told(error)}") from error

    return make


def _told(error: BaseException) -> str:
    """`ValueError: what, mine.py:17`."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f", {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}: {error}{where}"
