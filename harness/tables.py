"""All tables of the rules block as one frozen value. What contradicts what is said in `contradictions.py`, how a file becomes this in `rules.py`."""

from __future__ import annotations

from harness import oversight, sections


class Tables(sections.Section):
    """All ten, how an agent is run, and what follows a failure, a stall or a doubt."""

    scope: sections.Scope = sections.Scope()
    metric: sections.Metric = sections.Metric()
    trial: sections.Trial = sections.Trial()
    run: sections.Run = sections.Run()
    sandbox: sections.SandboxRules = sections.SandboxRules()
    audit: sections.AuditRules = sections.AuditRules()
    result: sections.Result = sections.Result()
    crash: sections.Crash = sections.Crash()
    keep: sections.Keep = sections.Keep()
    log: sections.Log = sections.Log()
    ban: oversight.Ban = oversight.Ban()
    correction: oversight.Correction = oversight.Correction()
    stall: oversight.Stall = oversight.Stall()
    review: oversight.Review = oversight.Review()
    escalation: oversight.Escalation = oversight.Escalation()
    proposer: sections.Proposer = sections.Proposer()
    model: sections.Model = sections.Model()
    stop: sections.StopAt = sections.StopAt()
