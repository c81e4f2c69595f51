"""A report as one JSON document; ``profile-report.schema.json`` beside this file describes it.

Times are nanoseconds. What was not measured is null.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from torchlint.profile.fleet import spreads, table
from torchlint.profile.join import Costs, FindingCost
from torchlint.profile.lines import LineCost
from torchlint.profile.modules import Modules
from torchlint.profile.output import forecast, growing, run
from torchlint.profile.output.content import Content
from torchlint.profile.report import Rank, Report, common_steps
from torchlint.profile.sites import Site
from torchlint.profile.waits import Wait
from torchlint.report.kit import ascii_json
from torchlint.trace.bandwidth import Bandwidth
from torchlint.trace.idle import Idle
from torchlint.trace.kernels import Kernel
from torchlint.trace.temporal import Temporal

SCHEMA_VERSION = 1
_COPIES = "count bytes ns gb_per_s peak_gb_per_s"
_KERNEL = "name kind count total_ns least_ns most_ns"


def render(content: Content) -> str:
    """Return the report as JSON, ASCII only, with a final newline."""
    return ascii_json.dump(whole(content))


def whole(content: Content) -> dict[str, Any]:
    """Return the whole report as plain values."""
    waits, costs, lines, steps = content.waits, content.costs, content.lines, content.steps
    found = document(content.report, content.rank, content.top)
    found["waits"] = (
        None
        if waits is None
        else {
            "span_ns": waits.span,
            "joint_ns": waits.joint,
            "python_frames": waits.frames,
            "places": [_wait(wait) for wait in waits.each],
        }
    )
    found["bounds"] = _bounds(costs) if costs is not None and costs.each else None
    found["findings"] = (
        [] if costs is None else [_finding(cost, costs, content) for cost in costs.each]
    )
    found["lines"] = None if lines is None else [_line(cost) for cost in lines]
    found["modules"] = None if content.modules is None else _modules(content.modules)
    operators = content.operators
    found["operators"] = (
        None if operators is None else [dataclasses.asdict(each) for each in operators.each]
    )
    found["run"] = None if steps is None else run.document(steps)
    found["predicted"] = forecast.document(content.predicted)
    found["growth"] = growing.document(content.growth)
    if content.against is not None:
        found["against"] = document(content.against, content.rank, content.top)
        found["change"] = (
            None
            if content.change is None
            else {**dataclasses.asdict(content.change), "ci95": list(content.change.bounds)}
        )
    return found


def document(report: Report, rank: int | None, top: int) -> dict[str, Any]:
    """Return the report as plain values; `figures` and `steps` are of the rank that is shown."""
    shown = report.rank(rank)
    of = shown.figures
    return {
        "schema_version": SCHEMA_VERSION,
        "command": list(report.command),
        "environment": {"torchlint": report.version, "device": shown.device or None},
        "window": {"events": of.events, "counted": of.counted, "span_ns": of.span},
        "rank": shown.number,
        "ranks": [_rank(report, each) for each in report.ranks],
        "spread": {name: dataclasses.asdict(each) for name, each in spreads(table(report)).items()},
        "common_steps": [
            {"number": number, "ns_by_rank": {str(rank): time for rank, time in times.items()}}
            for number, times in common_steps(report.ranks).items()
        ],
        "steps": [
            {
                "number": step.number,
                "time_ns": step.time,
                "busy_ns": step.busy,
                "loading_ns": step.loading,
            }
            for step in of.steps.each
        ],
        "figures": _figures(shown, top),
        "notes": list(report.notes),
    }


def _site(site: Site) -> dict[str, Any]:
    return {
        "file": site.file or None,
        "line": site.line or None,
        "function": site.function,
        "certainty": site.certainty,
        "source_differs": site.differs,
    }


def _wait(wait: Wait) -> dict[str, Any]:
    return {
        **_site(wait.site),
        "calls": wait.calls,
        "waited_ns": wait.waited,
        "alone_ns": wait.alone,
    }


def _line(cost: LineCost) -> dict[str, Any]:
    numbers = dataclasses.asdict(cost)
    del numbers["site"]
    return {**_site(cost.site), **numbers}


def _modules(found: Modules) -> list[dict[str, Any]]:
    rows = []
    for cost in found.each:
        numbers = dataclasses.asdict(cost)
        del numbers["count"]
        of = numbers.pop("module")
        names = {"model": of["model"], "name": of["name"], "class": of["kind"]}
        rows.append({**names, "exact": found.exact, **numbers})
    return rows


def _bounds(costs: Costs) -> dict[str, int]:
    return {
        "span_ns": costs.span,
        "whole_ns": costs.whole.ns,
        "joint_ns": costs.joint,
        "fixable_ns": costs.fixable,
    }


def _finding(cost: FindingCost, costs: Costs, content: Content) -> dict[str, Any]:
    one, bound = cost.finding, cost.bound
    predicted = None if content.predicted is None else content.predicted.at(one)
    return {
        "code": one.code,
        "filename": one.filename,
        "line": one.start.row,
        "column": one.start.column,
        "message": one.message,
        "fingerprint": one.fingerprint,
        "end_line": one.end.row,
        "severity": one.severity.value,
        "effect": cost.effect,
        "default": cost.default,
        "fixable": cost.fixable,
        "seen": cost.seen,
        "bound": None
        if bound is None
        else {
            "alone_ns": bound.alone_ns,
            "joint_ns": bound.joint_ns,
            "share": costs.share(cost),
            "basis": bound.basis,
            "negligible": costs.negligible(cost),
            "recorded_ns": bound.seen_ns,
        },
        "why": cost.why or None,
        "aside": None
        if cost.aside is None
        else {
            "kind": cost.aside.kind or None,
            "alone_ns": cost.aside.alone_ns,
            "whole_ns": cost.aside.whole.ns,
            "steps": cost.aside.whole.steps,
        },
        "worker_ns": cost.worker_ns,
        "inclusive_ns": cost.inclusive_ns,
        "cost": None if cost.cost is None else _line(cost.cost),
        "wait": None if cost.wait is None else _wait(cost.wait),
        "proof": run.proof(cost, content.steps),
        "predicted": None if predicted is None else forecast.traffic(predicted),
    }


def _rank(report: Report, rank: Rank) -> dict[str, Any]:
    spent = rank.figures.temporal
    return {
        "rank": rank.number,
        "world_size": rank.world,
        "file": rank.path,
        "step_ns": rank.figures.steps.median,
        "temporal": None if spent is None else _times(spent),
        "waits_in_collectives_ns": report.waiting.by_rank[rank.number]
        if report.waiting.matched
        else None,
    }


def _times(record: Temporal | Idle) -> dict[str, int]:
    return {f"{name}_ns": time for name, time in dataclasses.asdict(record).items()}


def _figures(rank: Rank, top: int) -> dict[str, Any]:
    of = rank.figures
    queues = [
        {"stream": stream, **dataclasses.asdict(queue), "quartiles": list(queue.quartiles)}
        for stream, queue in of.queues.items()
    ]
    return {
        "temporal": None if of.temporal is None else _times(of.temporal),
        "kinds": [{"kinds": list(each.kinds), "ns": each.time} for each in of.by_kinds],
        "hidden_communication": of.hidden_communication,
        "idle": [{"stream": stream, **_times(gaps)} for stream, gaps in of.idle.items()],
        "launches": None if of.launches is None else dataclasses.asdict(of.launches),
        "queues": queues,
        "copies": [
            {"direction": direction, **_named(_COPIES, copies)}
            for direction, copies in of.bandwidth.items()
        ],
        "kernels": [_named(_KERNEL, kernel) for kernel in of.kernels[:top]],
        "step": {
            "median_ns": of.steps.median,
            "variation": of.steps.variation,
            "slowest_because": of.steps.why or None,
        },
        "loading": None if of.loading is None else {"batches": of.batches, "ns": of.loading},
    }


def _named(names: str, record: Bandwidth | Kernel) -> dict[str, Any]:
    """Return the fields of a record under other names; null for what JSON has no number for."""
    fields = zip(names.split(), dataclasses.astuple(record), strict=True)
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields
    }
