"""Reports of parts of a run, as JSON values, joined into the report of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from torchlint.base.records import frozen


class MergeError(ValueError):
    """A report that cannot be joined with the others; `at` is its index, None where it is all of
    them."""

    def __init__(self, at: int | None, words: str) -> None:
        super().__init__(words)
        self.at = at


class _MalformedError(Exception):
    """A part of a report is not what it has to be; the message says which, and what it has to
    be."""


def merged(reports: Sequence[Any], total: int | None = None) -> Any:
    """Return one report for several, in the order of a report; what several of them hold is there
    once.

    Args:
        reports: parsed; all of the json format or all SARIF logs of torchlint's.
        total: of how many shards they have to be; None where they say so themselves.

    Raises:
        MergeError: one of them is of another kind.
    """
    if all(isinstance(report, list) for report in reports):
        entries = _joined_lists(reports)
        check_shards(
            [
                _shard(at, report[0].get("shard")) if report else _EMPTY
                for at, report in enumerate(reports)
            ],
            total,
        )
        return [{key: value for key, value in entry.items() if key != "shard"} for entry in entries]
    for at, report in enumerate(reports):
        if isinstance(report, list):
            raise MergeError(
                at, "a report of the json format cannot be joined with one that is not"
            )
    runs = [_run_of_shard(at, report) for at, report in enumerate(reports)]
    check_shards(
        [_shard(at, run.get("properties", {}).get("shard")) for at, run in enumerate(runs)], total
    )
    whole = {key: value for key, value in runs[0].items() if key != "properties"}
    rules = {rule["id"]: rule for run in runs for rule in run["tool"]["driver"]["rules"]}
    ids = sorted(rules)
    whole["tool"] = {
        "driver": {**runs[0]["tool"]["driver"], "rules": [rules[name] for name in ids]}
    }
    whole["invocations"] = [_invocation([run["invocations"][0] for run in runs])]
    index = {name: at for at, name in enumerate(ids)}
    results = [
        {**result, "ruleIndex": index[result["ruleId"]]}
        for run in runs
        for result in run["results"]
    ]
    if any("suppressions" in result for result in results):  # then all have to say it
        results = [{**result, "suppressions": result.get("suppressions", [])} for result in results]
    whole["results"] = _unique(sorted(results, key=_result_key))
    return {**reports[0], "runs": [whole]}


@frozen
class _Shard:
    """What a report says of itself: its part of a run, and what the run was."""

    number: int
    total: int
    version: str
    settings: str


_EMPTY = object()
"""Stands for a report of the json format without findings: it cannot say which shard it is."""


def check_shards(shards: Sequence[_Shard | object | None], total: int | None = None) -> None:
    """Refuse reports that are not all the shards of one run, each once; those of whole runs may be
    joined as they are.

    Raises:
        MergeError: a shard is missing or there twice, or is of another run.
    """
    known = [shard for shard in shards if isinstance(shard, _Shard)]
    if total is not None:
        _check_total(shards, known, total)
    if not known:
        return
    first = known[0]
    there: dict[int, int] = {}
    for at, shard in enumerate(shards):
        if shard is None:
            raise MergeError(
                at,
                (
                    "is the report of no shard, and others are of shards "
                    f"({first.number}/{first.total})"
                ),
            )
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
        but = (
            f"; {empty} empty report{'s' * (empty > 1)} may be of {empty} of them" if empty else ""
        )
        raise MergeError(None, f"no report of {words} {names}{but}")
    if len(missing) < empty:
        raise MergeError(None, f"{len(shards)} reports of {first.total} shards: one is there twice")


def _check_total(
    shards: Sequence[_Shard | object | None], known: Sequence[_Shard], total: int
) -> None:
    for at, shard in enumerate(shards):
        if shard is None:
            raise MergeError(at, f"is the report of no shard, and those of {total} are asked for")
        if isinstance(shard, _Shard) and shard.total != total:
            raise MergeError(
                at, f"is shard {shard.number}/{shard.total}, and those of {total} are asked for"
            )
    if not known and len(shards) != total:
        raise MergeError(
            None, f"{len(shards)} empty report{'s' * (len(shards) > 1)}, and {total} are asked for"
        )


def say_nothing_of_shards(reports: Sequence[Any]) -> bool:
    """Say whether reports cannot tell whether one of them is missing: lists without entries name no
    shard."""
    return all(report == [] for report in reports)


_NAMED = 10
"""Missing shards that are named."""


def _difference(first: _Shard, other: _Shard) -> str:
    if other.total != first.total:
        return f"is shard {other.number}/{other.total}, and others are of {first.total}"
    if other.version != first.version:
        return f"is of torchlint {other.version}, and others of {first.version}"
    return (
        "was made with other settings or options than the first"
        if other.settings != first.settings
        else ""
    )


def _shard(at: int, said: Any) -> _Shard | None:
    if said is None:
        return None
    try:
        shard = _Shard(
            int(said["number"]), int(said["total"]), str(said["version"]), str(said["settings"])
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise MergeError(at, "does not say which shard it is in a way that is known") from None
    if not 1 <= shard.number <= shard.total < 1_000_000:
        raise MergeError(at, f"says that it is shard {shard.number} of {shard.total}")
    return shard


def _joined_lists(reports: Sequence[Any]) -> list[Any]:
    entries = []
    for at, report in enumerate(reports):
        for number, entry in enumerate(report):
            try:
                entries.append((_entry_key(entry), entry))
            except _MalformedError as error:
                words = (
                    "holds what is no finding of torchlint's json format: in entry "
                    f"{number}, {error}"
                )
                raise MergeError(at, words) from None
    return _unique(entry for _, entry in sorted(entries, key=lambda pair: pair[0]))


def _entry_key(entry: Any) -> tuple[bool, str, int, int, int, str]:
    place = _field(_checked(entry, dict, "it"), "location", dict)
    row, column = (_field(place, key, int, "location.") for key in ("row", "column"))
    cell = 0 if entry.get("cell") is None else _field(entry, "cell", int)
    code = _field(entry, "code", str)
    # Of what was not analysed, a report speaks last.
    return code == "not-analysed", _field(entry, "filename", str), cell, row, column, code


_KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}
_Kind = TypeVar("_Kind", dict[str, Any], list[Any], str, int)


def _checked(value: Any, kind: type[_Kind], where: str) -> _Kind:
    """Return a value that has to be of a kind.

    Raises:
        _MalformedError: it is not; the message starts with `where`.
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _MalformedError(f"{where} is not {_KINDS[kind]}")
    return value


def _field(holder: dict[str, Any], key: str, kind: type[_Kind], where: str = "") -> _Kind:
    return _checked(holder.get(key), kind, f"{where}{key}")


def _run_of_shard(at: int, report: Any) -> dict[str, Any]:
    try:
        runs = _field(_checked(report, dict, "it"), "runs", list)
        if len(runs) != 1:
            raise MergeError(at, "holds not one run, as torchlint's SARIF logs do")
        run = _checked(runs[0], dict, "runs[0]")
        driver = _field(_field(run, "tool", dict), "driver", dict, "tool.")
        if driver.get("name") != "torchlint":
            raise MergeError(at, "is not a report of torchlint's")
        _check_results(run, driver)
        invocation = _checked(
            next(iter(_field(run, "invocations", list)), None), dict, "invocations[0]"
        )
        for number, note in enumerate(_field(invocation, "toolExecutionNotifications", list)):
            _note_key(note, f"notification {number}")
        _checked(run.get("properties", {}), dict, "properties")
    except _MalformedError as error:
        words = f"is neither a report of the json format nor a SARIF log of torchlint's: {error}"
        raise MergeError(at, words) from None
    return dict(run)


def _check_results(run: dict[str, Any], driver: dict[str, Any]) -> None:
    rules = [
        _checked(rule, dict, "a rule") for rule in _field(driver, "rules", list, "tool.driver.")
    ]
    names = {_field(rule, "id", str, "of a rule, the ") for rule in rules}
    for number, result in enumerate(_field(run, "results", list)):
        _result_key(result, f"result {number}")
        if result["ruleId"] not in names:
            raise _MalformedError(f"the rule of result {number} is not among its rules")


def _result_key(result: Any, where: str = "") -> tuple[bool, str, str, int, int, str]:
    rule = _field(_checked(result, dict, where), "ruleId", str, f"{where}: ")
    location, uri, start = _location(result, where)
    if uri is None:
        raise _MalformedError(f"{where} is nowhere")
    logical = _checked(location.get("logicalLocations") or [], list, f"{where}: logicalLocations")
    cell = (
        str(_checked(logical[0], dict, f"{where}: logicalLocations[0]").get("name", ""))
        if logical
        else ""
    )
    return bool(result.get("suppressions")), uri, cell.rjust(20), *start, rule


def _location(
    value: dict[str, Any], where: str
) -> tuple[dict[str, Any], str | None, tuple[int, int]]:
    """Return the first location of a result or notification, its file or None, its row and column
    or zeros."""
    locations = _checked(value.get("locations") or [{}], list, f"{where}: locations")
    location = _checked(locations[0], dict, f"{where}: locations[0]")
    place = _checked(location.get("physicalLocation") or {}, dict, f"{where}: physicalLocation")
    artifact = _checked(place.get("artifactLocation") or {}, dict, f"{where}: artifactLocation")
    region = _checked(place.get("region") or {}, dict, f"{where}: region")
    row, column = (
        _checked(region.get(key, 0), int, f"{where}: {key}") for key in ("startLine", "startColumn")
    )
    return (
        location,
        None if artifact.get("uri") is None else _field(artifact, "uri", str, f"{where}: "),
        (row, column),
    )


def _invocation(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    notes = [note for part in parts for note in part["toolExecutionNotifications"]]
    good = all(part.get("executionSuccessful") for part in parts)
    return {
        **parts[0],
        "executionSuccessful": good,
        "toolExecutionNotifications": _unique(sorted(notes, key=_note_key)),
    }


def _note_key(note: Any, where: str = "") -> tuple[str, int]:
    _, uri, (row, _) = _location(_checked(note, dict, where), where)
    return uri or "", row


def _unique(values: Iterable[Any]) -> list[Any]:
    """Return the values without those that are equal to the one before; equal ones stand
    together."""
    found: list[Any] = []
    for value in values:
        if not found or found[-1] != value:
            found.append(value)
    return found
