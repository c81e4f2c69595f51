"""Numbers of workers that were tried, in words, as JSON and as Markdown;
``sweep-report.schema.json`` beside this file describes the JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from torchlint.profile.output.markdown import plain, table
from torchlint.profile.output.table import share, span
from torchlint.profile.sweep import LEAST, ROUNDS, Sweep, Tried
from torchlint.report.kit import ascii_json
from torchlint.report.kit.terminal import BOLD, DIM, aligned, paint
from torchlint.report.kit.words import pluralise, visible

SCHEMA_VERSION = 1
HEAD = ("workers", "step", "least to most", "waiting for data")


def text(of: Sweep, color: bool) -> str:
    """Return the report for people."""
    title = f"{shlex.join(of.typed)}: {_how_measured(of)}"
    lines = [paint(visible(title), BOLD, color), *aligned([HEAD, *map(_row, of.tried)])]
    lines += ["", paint(verdict(of), BOLD, color), *further(of)]
    lines += [paint(f"note: {visible(note)}", DIM, color) for note in of.notes]
    return "\n".join(lines) + "\n"


def _how_measured(of: Sweep) -> str:
    device = f", {of.device}" if of.device else ""
    cores = pluralise(of.cores, "core")
    return f"{ROUNDS} rounds of {pluralise(of.timed, 'step')} with each number{device}, {cores}"


def _row(one: Tried) -> tuple[str, str, str, str]:
    if one.failed:
        return str(one.workers), "fails", visible(one.failed), ""
    between = f"{span(min(one.steps))} to {span(max(one.steps))}"
    waits = f"{span(one.wait)} ({share(one.wait, one.step)})"
    return str(one.workers), span(one.step), between, waits


def verdict(of: Sweep) -> str:
    """Return the answer in one sentence."""
    enough, largest = of.enough, of.ran[-1]
    rounds = f"in all {ROUNDS} rounds"
    if len(of.ran) == 1:
        return f"Only with {_workers(enough)} does the program run."
    if enough is largest:
        before = of.ran[-2]
        return (
            f"More workers help up to the largest number tried, {largest.workers}: a step takes "
            f"{share(largest.step, before.step)} of what it takes with {before.workers}."
        )
    if of.unsettled:
        return (
            f"Not settled: some rounds are faster with {_numbers(of.unsettled)} than with "
            f"{enough.workers}, and others are not; stop other work, or time more steps (--steps)."
        )
    none = f"no larger number is more than {100 * LEAST:g} % faster {rounds}"
    if not enough.workers:
        return f"Workers do not matter here: {none}."
    return f"From {_workers(enough)} on it stops mattering: {none}."


def further(of: Sweep) -> Iterator[str]:
    """Yield what stands beside the answer: what is slower, and what the program's own number is
    worth where that is settled."""
    enough = of.enough
    if of.slower:
        yield f"Slower in every round: {_numbers(of.slower)}."
    own = [one for one in of.ran if of.own == (one.workers,) and not of.unsettled]
    if own and own[0] is not enough:
        yield (
            f"The program itself uses {own[0].workers}: with {enough.workers} a step takes "
            f"{share(enough.step, own[0].step)} of that."
        )
    elif len(of.own) > 1:
        yield f"The program's loaders use {', '.join(map(str, of.own))}; all got the same here."
    if enough.wait > LEAST * enough.step and not of.unsettled:
        yield (
            f"With {enough.workers} the program still waits {share(enough.wait, enough.step)} of "
            "a step for data: without --sweep-workers, profile says which lines of the dataset "
            "take the time."
        )


def _workers(one: Tried) -> str:
    return pluralise(one.workers, "worker")


def _numbers(each: Sequence[Tried]) -> str:
    return ", ".join(str(one.workers) for one in each)


def document(of: Sweep, command: Sequence[str], version: str) -> str:
    """Return the report as JSON, ASCII only, with a final newline."""
    return ascii_json.dump(
        {
            "schema_version": SCHEMA_VERSION,
            "command": list(command),
            "environment": {"torchlint": version, "device": of.device or None, "cores": of.cores},
            "program": list(of.typed),
            "rounds": ROUNDS,
            "timed_steps": of.timed,
            "own": list(of.own),
            "tried": [
                {
                    "workers": one.workers,
                    "step_ns": one.step if one.steps else None,
                    "wait_ns": one.wait if one.waits else None,
                    "steps_ns": one.steps,
                    "waits_ns": one.waits,
                    "failed": one.failed or None,
                }
                for one in of.tried
            ],
            "enough": of.enough.workers,
            "unsettled": [one.workers for one in of.unsettled],
            "slower": [one.workers for one in of.slower],
            "notes": list(of.notes),
        }
    )


def markdown(of: Sweep) -> str:
    """Return the report as Markdown."""
    lines = ["## torchlint profile: workers of DataLoaders", "", plain(verdict(of)), ""]
    lines += table(HEAD, [[*map(plain, _row(one))] for one in of.tried])
    notes = (f"{_how_measured(of)}.", *further(of), *of.notes)
    lines += ["", *(f"- {plain(note)}" for note in notes)]
    return "\n".join(lines) + "\n"
