"""Reports of parts of a run, as JSON values, joined into the report of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class MergeError(ValueError):
    """A report that cannot be joined with the others; `at` is its index, None where it is all of them."""

    def __init__(self, at: int | None, words: str) -> None:
        super().__init__(words)
        self.at = at


def merged(reports: Sequence[Any]) -> Any:
    """Return one report for several, in the order of a report; what several of them hold is there once.

    Args:
        reports: parsed; all of the json format or all SARIF logs of torchlint's.

    Raises:
        MergeError: one of them is of another kind.
    """
    if all(isinstance(report, list) for report in reports):
        entries = _joined_lists(reports)
        check_shards([_shard_of_list(at, report) for at, report in enumerate(reports)])
        return [{key: value for key, value in entry.items() if key != "shard"} for entry in entries]
    for at, report in enumerate(reports):
        if isinstance(report, list):
            raise MergeError(at, "a report of the json format cannot be joined with one that is not")
    runs = [_run(at, report) for at, report in enumerate(reports)]
    check_shards([_shard(at, run.get("properties", {}).get("shard")) for at, run in enumerate(runs)])
    whole = {key: value for key, value in runs[0].items() if key != "properties"}
    rules = {rule["id"]: rule for run in runs for rule in run["tool"]["driver"]["rules"]}
    ids = sorted(rules)
    whole["tool"] = {"driver": {**runs[0]["tool"]["driver"], "rules": [rules[name] for name in ids]}}
    whole["invocations"] = [_invocation([run["invocations"][0] for run in runs])]
    results = [{**result, "ruleIndex": ids.index(result["ruleId"])} for run in runs for result in run["results"]]
    if any("suppressions" in result for result in results):  # then all have to say it
        results = [{**result, "suppressions": result.get("suppressions", [])} for result in results]
    whole["results"] = _unique(sorted(results, key=_result_key))
    return {**reports[0], "runs": [whole]}


@dataclass(frozen=True, slots=True)
class _Shard:
    """What a report says of itself: its part of a run, and what the run was."""

    number: int
    total: int
    version: str
    settings: str


_EMPTY = object()
"""Stands for a report of the json format without findings: it cannot say which shard it is."""


def check_shards(shards: Sequence[_Shard | object | None]) -> None:
    """Refuse reports that are not all the shards of one run, each once; those of whole runs may be joined as they are.

    Raises:
        MergeError: a shard is missing or there twice, or is of another run.
    """
    known = [shard for shard in shards if isinstance(shard, _Shard)]
    if not known:
        return
    first = known[0]
    there: dict[int, int] = {}
    for at, shard in enumerate(shards):
        if shard is None:
            raise MergeError(at, f"is the report of no shard, and others are of shards ({first.number}/{first.total})")
        if not isinstance(shard, _Shard):
            continue
        if problem := _difference(first, shard):
            raise MergeError(at, problem)
        if shard.number in there:
            raise MergeError(at, f"is shard {shard.number}/{shard.total}, which is there already")
        there[shard.number] = at
    missing = [number for number in range(1, first.total + 1) if number not in there]
    empty = shards.count(_EMPTY)
    if len(missing) > empty:
        names = ", ".join(f"{number}/{first.total}" for number in missing[:_NAMED])
        names += f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        words = "shard" if len(missing) == 1 else "shards"
        but = f"; {empty} empty report{'s' * (empty > 1)} may be of {empty} of them" if empty else ""
        raise MergeError(None, f"no report of {words} {names}{but}")
    if len(missing) < empty:
        raise MergeError(None, f"{len(shards)} reports of {first.total} shards: one is there twice")


_NAMED = 10
"""Missing shards that are named."""


def _difference(first: _Shard, other: _Shard) -> str:
    if other.total != first.total:
        return f"is shard {other.number}/{other.total}, and others are of {first.total}"
    if other.version != first.version:
        return f"is of torchlint {other.version}, and others of {first.version}"
    return "was made with other settings or options than the first" if other.settings != first.settings else ""


def _shard_of_list(at: int, report: list[Any]) -> _Shard | object | None:
    return _shard(at, report[0].get("shard")) if report else _EMPTY


def _shard(at: int, said: Any) -> _Shard | None:
    if said is None:
        return None
    try:
        shard = _Shard(int(said["number"]), int(said["total"]), str(said["version"]), str(said["settings"]))
    except (KeyError, TypeError, ValueError):
        raise MergeError(at, "does not say which shard it is in a way that is known") from None
    if not 1 <= shard.number <= shard.total < 1_000_000:
        raise MergeError(at, f"says that it is shard {shard.number} of {shard.total}")
    return shard


def _joined_lists(reports: Sequence[Any]) -> list[Any]:
    entries = []
    for at, report in enumerate(reports):
        for entry in report:
            try:
                entries.append((_entry_key(entry), entry))
            except (KeyError, TypeError):
                raise MergeError(at, "holds what is no finding of torchlint's json format") from None
    return _unique(entry for _, entry in sorted(entries, key=lambda pair: pair[0]))


def _entry_key(entry: Any) -> tuple[bool, str, int, int, int, str]:
    place = entry["location"]
    # Of what was not analysed, a report speaks last.
    late = entry["code"] == "not-analysed"
    return late, entry["filename"], entry["cell"] or 0, int(place["row"]), int(place["column"]), str(entry["code"])


def _run(at: int, report: Any) -> dict[str, Any]:
    try:
        [run] = report["runs"]
        if run["tool"]["driver"]["name"] != "torchlint":
            raise MergeError(at, "is not a report of torchlint's")
        for result in run["results"]:
            _result_key(result)
        if not isinstance(run["invocations"][0]["toolExecutionNotifications"], list):
            raise TypeError
        names = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
        if not names.issuperset(result["ruleId"] for result in run["results"]):
            raise KeyError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise MergeError(at, "is neither a report of the json format nor a SARIF log of torchlint's") from None
    except ValueError as error:
        if isinstance(error, MergeError):
            raise
        raise MergeError(at, "holds not one run, as torchlint's SARIF logs do") from None
    return dict(run)


def _result_key(result: Any) -> tuple[bool, str, str, int, int, str]:
    place = result["locations"][0]["physicalLocation"]
    cells = result["locations"][0].get("logicalLocations") or [{}]
    region = place.get("region") or {}
    cell = str(cells[0].get("name", ""))
    start = int(region.get("startLine", 0)), int(region.get("startColumn", 0))
    suppressed = bool(result.get("suppressions"))
    return (suppressed, str(place["artifactLocation"]["uri"]), cell.rjust(20), *start, str(result["ruleId"]))


def _invocation(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    notes = [note for part in parts for note in part["toolExecutionNotifications"]]
    good = all(part.get("executionSuccessful") for part in parts)
    return {
        **parts[0],
        "executionSuccessful": good,
        "toolExecutionNotifications": _unique(sorted(notes, key=_note_key)),
    }


def _note_key(note: Any) -> tuple[str, int]:
    place = note.get("locations", [{}])[0].get("physicalLocation", {})
    return str(place.get("artifactLocation", {}).get("uri", "")), int(place.get("region", {}).get("startLine", 0))


def _unique(values: Iterable[Any]) -> list[Any]:
    """Return the values without those that are equal to the one before; equal ones stand together."""
    found: list[Any] = []
    for value in values:
        if not found or found[-1] != value:
            found.append(value)
    return found
