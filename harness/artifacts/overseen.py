"""The fold's part on oversight: reviews, follow-ups, detectors, the ladder, questions and messages; and what the watch notes of readings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.artifacts import events as ev
from harness.artifacts import oversight_events as ov
from harness.artifacts import taken
from harness.artifacts.call_events import Asked
from harness.artifacts.inbox import ASK_AGAIN

if TYPE_CHECKING:
    from harness.artifacts.study import Study


def _resolved(study: Study, event: ov.Resolved) -> None:
    if event.option == ASK_AGAIN:
        study.calls.reopen()
    if study.inbox.resolved(event).blocks == "study":  # the wait for an answer is no part of any trial
        study.settled_elapsed = study.elapsed


def _asked(study: Study, event: Asked) -> None:
    study.calls.asked(event)
    study.reviewing.asking(event)


def _scored(study: Study, event: ev.Scored) -> None:
    if event.fault is not None and not event.fault.candidate_to_blame:
        study.watch.void(event.fault.reason, event.fault.detail)
    taken.scored(study, event)


def _interrupted(study: Study, event: ev.Interrupted) -> None:
    if study.current is not None and study.current.trial == event.trial:
        study.watch.void(event.reason, event.detail)
    taken.interrupted(study, event)


def _verified(study: Study, event: ov.Verified) -> None:
    study.watch.verified = event
    study.repairs.verified(event)


HANDLERS: dict[type, Any] = {
    Asked: _asked, ev.Scored: _scored, ev.Interrupted: _interrupted, ov.Verified: _verified, ov.Resolved: _resolved,
    ov.Detected: lambda study, event: study.watch.seen(event),
    ov.FollowedUp: lambda study, event: study.repairs.followed_up(event),
    ov.Climbed: lambda study, event: study.ladder.step(event),
    ov.Reviewed: lambda study, event: study.reviewing.reviewed(event),
    ov.Lapsed: lambda study, event: study.reviewing.lapsed(event),
    ov.Escalated: lambda study, event: study.inbox.escalated(event),
    ov.Sending: lambda study, event: study.inbox.sending(event),
    ov.Sent: lambda study, event: study.inbox.sent(event),
}  # fmt: skip
