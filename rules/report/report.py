"""IncidentState -> Incident: the document that people and programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from epicenter.rules.cause.confidence import doubts_about, shares
from epicenter.rules.cause.context import NO_CONTEXT, IncidentContext
from epicenter.rules.cause.cost import JobLoss, cost_of
from epicenter.rules.cause.ranking import Candidate, rank
from epicenter.rules.cause.reasons import ReasonKind
from epicenter.rules.cause.suspects import Suspects, strongest_suspects
from epicenter.rules.cause.witnesses import accused
from epicenter.rules.correlate.attempts import Attempt, recurrence
from epicenter.rules.correlate.harm import hurts_a_job
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.liveness.progress import JobProgress
from epicenter.rules.liveness.verdict import verdict_of
from epicenter.rules.model.incident import (
    BlastRadius,
    Cost,
    Evidence,
    Incident,
    Progress,
    RankedCause,
    RootCause,
)
from epicenter.rules.model.signals import SEVERITIES, Signal
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.report.chain import MAX_TEXT_LENGTH, chain_of, is_dated_back, link_of
from epicenter.rules.report.checks import checks_of, steps_left
from epicenter.rules.report.clocks import as_logged, in_common_time, skews_ns
from epicenter.rules.report.commands import commands_of
from epicenter.rules.report.culprit import culprit_of
from epicenter.rules.report.evidence import answers_of, causes_of, gaps, missing
from epicenter.rules.report.fields import fields_of
from epicenter.rules.report.headline import gpu_of
from epicenter.rules.report.mismatch import signals_with_mismatch
from epicenter.rules.report.not_known import not_known
from epicenter.rules.report.reason_text import reason_texts
from epicenter.rules.report.steps import filled_steps
from epicenter.rules.report.title import title_of

MAX_BLOCK_LENGTH: Final = 16_000
UNHARMFUL_SEVERITY: Final = "warning"
UNUSUAL_FIELD: Final = "unusual"


def report(state: IncidentState, rules: RuleSet, context: IncidentContext = NO_CONTEXT) -> Incident:
    """The incident as of now. Its rule may no longer exist: snapshots outlive changes of the packs."""
    suspects = strongest_suspects(state.collectives, context)
    ranked = ranked_signals(state, rules, suspects, context)
    root = ranked[0].signal
    culprit = culprit_of(state, root, suspects, context)
    answers, doubts = _weighed(state, ranked, rules, suspects, context)
    probable = shares(answers, doubts)
    causes = [_with_gpu(cause, rules) for cause in causes_of(answers, probable.of_answers)]
    cost = cost_of([context.loss_by_job.get(job, JobLoss()) for job in sorted(state.jobs)])
    rule = rules.by_id.get(root.rule)
    chain = chain_of(ranked, root)
    title = title_of(state, root, culprit, suspects, rule.spec if rule else None, context)
    checks = checks_of(state, root, suspects, rules, context)
    steps = steps_left(rule.spec.next_steps, rule.spec.checks, checks) if rule else ()
    verdict = verdict_of([candidate.signal for candidate in ranked])
    return Incident(
        incident_id=state.incident_id,
        revision=state.revision,
        status=state.status,
        failure_class=root.failure_class,
        severity=_severity(state, root, context),
        title=title,
        cluster=state.cluster,
        jobs=tuple(sorted(state.jobs)),
        nodes=tuple(sorted(state.nodes)),
        root_cause=_root_cause(causes[0], culprit, fields_of(root) | _unusual(ranked[0])),
        chain=tuple(link_of(candidate, ranked[0], is_dated_back(candidate.signal, rules)) for candidate in chain),
        blast_radius=_blast_radius(state, cost),
        progress=state.progress,
        first_seen=iso_from_ns(state.first_onset_ns),
        last_seen=iso_from_ns(state.last_seen_ns),
        signal_count=state.signal_count,
        evidence=tuple(_evidence(candidate.signal) for candidate in chain if candidate.signal.position),
        next_steps=filled_steps((*steps, *rules.advice.get(root.failure_class, ())), culprit),
        action=rule.spec.action if rule else "none",
        merged_into=state.merged_into,
        history=tuple(state.history),
        recurrence=recurrence(state.earlier, _attempt(state, culprit, state.last_seen_ns)),
        candidates=tuple(causes),
        cost=cost,
        missing=missing(state, ranked, suspects, context, rules.topology),
        verdict=verdict,
        reopened=state.reopened,
        resolved_by=state.resolved_by,
        checks=tuple(check for check in checks.values() if check.answer not in title),
        commands=commands_of(state, culprit, rule.spec.action, verdict) if rule else (),
        not_known=not_known(state, answers, probable.none, doubts, suspects, context),
    )


def _severity(state: IncidentState, root: Signal, context: IncidentContext) -> str:
    """That of its worst signal; at most a warning where a scheduler did what it should, or where no job suffers."""
    is_intended = root.failure_class in vocabulary().intended
    needs_no_page = is_intended or not hurts_a_job(state, context.established_jobs, context.heard_jobs)
    return min(state.severity, UNHARMFUL_SEVERITY, key=SEVERITIES.index) if needs_no_page else state.severity


def ranked_signals(
    state: IncidentState, rules: RuleSet, suspects: Suspects | None, context: IncidentContext = NO_CONTEXT
) -> list[Candidate]:
    """The signals of the incident, the likeliest cause first."""
    signals = signals_with_mismatch(state, suspects)
    skews = skews_ns(state)
    by_one_clock = in_common_time(signals, skews)
    lost = accused(state.accusers_by_peer, context, state.node_by_address)
    model, topology = rules.cause_model, rules.topology
    about = suspects, topology, state.survival, lost, state.unusual
    ranked = rank(by_one_clock, rules.edges_between, state.jobs_of, model, *about)
    return as_logged(ranked, signals) if skews else ranked


def weighed(
    state: IncidentState, rules: RuleSet, context: IncidentContext = NO_CONTEXT
) -> tuple[list[Candidate], frozenset[str]]:
    """The answers to what the cause is, the likeliest first, and what makes it doubtful that it is among them."""
    suspects = strongest_suspects(state.collectives, context)
    return _weighed(state, ranked_signals(state, rules, suspects, context), rules, suspects, context)


def _weighed(
    state: IncidentState,
    ranked: Sequence[Candidate],
    rules: RuleSet,
    suspects: Suspects | None,
    context: IncidentContext,
) -> tuple[list[Candidate], frozenset[str]]:
    has_known_causes = rules.edge_index.leads_to(ranked[0].signal.failure_class)
    answers = answers_of(state, ranked, suspects, context)
    return answers, doubts_about(answers, gaps(state, ranked, suspects, context), has_known_causes)


def _blast_radius(state: IncidentState, cost: Cost) -> BlastRadius:
    gpus = cost.gpus if cost.gpus is not None else max(len(state.ranks), len(state.gpus))
    return BlastRadius(len(state.nodes), len(state.ranks), len(state.jobs), gpus)


def attempt_of(state: IncidentState, time_ns: int, rules: RuleSet, context: IncidentContext = NO_CONTEXT) -> Attempt:
    """The run that the incident ended, as a record for later runs of its jobs."""
    suspects = strongest_suspects(state.collectives, context)
    root = ranked_signals(state, rules, suspects, context)[0].signal
    return _attempt(state, culprit_of(state, root, suspects, context), time_ns)


def _attempt(state: IncidentState, root: Signal, time_ns: int) -> Attempt:
    suspected_nodes = sorted({root.node, *state.kernel_nodes} - {""})
    step = max(
        (at_onset.last_step for at_onset in state.at_onset.values() if at_onset.last_step is not None), default=None
    )
    return Attempt.of(state.incident_id, time_ns, root.failure_class, tuple(suspected_nodes), step)


def _with_gpu(cause: RankedCause, rules: RuleSet) -> RankedCause:
    rule = rules.by_id.get(cause.rule)
    return structs.replace(cause, gpu=gpu_of(cause.gpu, rule.spec if rule else None))


def _root_cause(cause: RankedCause, root: Signal, fields: dict[str, str]) -> RootCause:
    return RootCause(
        failure_class=cause.failure_class,
        rule=cause.rule,
        node=cause.node,
        rank=cause.rank,
        gpu=cause.gpu,
        event_time=iso_from_ns(root.event_time_ns),
        confidence=cause.confidence,
        reasons=cause.reasons,
        explains=cause.explains,
        explained_by=cause.explained_by,
        fields=fields,
    )


def _unusual(root: Candidate) -> dict[str, str]:
    """The field with how unusual the root's message is, if no rule names it and that is known."""
    texts = reason_texts(reason for reason in root.reasons if reason.kind is ReasonKind.UNUSUAL)
    return {UNUSUAL_FIELD: texts[0]} if texts else {}


def progress_report(progress: JobProgress) -> Progress:
    """How far a job that numbers its steps has come by now."""
    pace_ns = progress.pace_ns
    return Progress(
        last_step=progress.written_last_step,
        last_step_time=iso_from_ns(progress.last_step_ns),
        step_time_s=None if pace_ns is None else round(pace_ns / NS_PER_S, 3),
    )


def _evidence(signal: Signal) -> Evidence:
    position = signal.position
    return Evidence(
        source=position.source if position else "",
        line=position.offset if position else 0,
        node=signal.node,
        failure_class=signal.failure_class,
        text="\n".join(signal.block)[:MAX_BLOCK_LENGTH] if signal.block else signal.text[:MAX_TEXT_LENGTH],
    )
