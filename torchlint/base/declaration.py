"""What a rule file declares of its rule: the arguments of ``Rule(...)``, each said once.

The parent process reads them in the file and imports no rule; a worker imports the rule. Both are
records with these fields, `torchlint.catalog.rule_file.RuleInfo` and `torchlint.rule.Rule`, and a
new argument is a new field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

from torchlint.base.finding import Severity
from torchlint.base.records import dataclass
from torchlint.base.regex import regex

CODE = regex(r"[A-Z]{2,5}\d{3}")
_RELEASE = regex(r"\d+(\.\d+)*")
EQUIVALENCES = ("bitwise", "close", "rng", "opt-in")
"""What the unsafe fix of a rule keeps of the results; a safe fix keeps every bit."""
FIRST_RELEASE = "0.1.0"
"""The release of our own rules that name none."""
RUNS = ("anywhere", "once", "sample", "hot", "batch", "step", "train")
"""How often a line has to run for a check to look at it, see `Declaration`."""
EFFECTS = ("wait", "copy", "host", "launch", "gpu", "upload", "sample", "loader", "memory", "none")
"""What fixing a finding takes out of a run, see `Declaration`."""
T = TypeVar("T")


def _message(value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError("message= must be a string")


def _severity(value: object) -> None:
    words = [severity.value for severity in Severity]
    if value not in words:
        raise ValueError(f"severity= is {value!r}; it must be one of {', '.join(words)}")


def _default(value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError("default= must be True or False")


def _triggers(value: object) -> None:
    triggers = _tuple_of(bytes, "triggers", value)
    if not triggers or b"" in triggers:
        raise ValueError("triggers= needs at least one byte string, none of them empty")


def _yields_to(value: object) -> None:
    for other in _tuple_of(str, "yields_to", value):
        if not CODE.fullmatch(other):
            raise ValueError(f"yields_to= names {other!r}, which is not another rule's code")


def _equivalence(value: object) -> None:
    if value not in EQUIVALENCES:
        words = ", ".join(EQUIVALENCES)
        raise ValueError(f"equivalence= must be one of {words}, not {value!r}")


def _since(value: object) -> None:
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise ValueError(f"since= is {value!r}; it must be a release such as {FIRST_RELEASE!r}")


def _runs(value: object) -> None:
    if value not in RUNS:
        raise ValueError(f"runs= must be one of {', '.join(RUNS)}, not {value!r}")


def _effect(value: object) -> None:
    if value not in EFFECTS:
        raise ValueError(f"effect= must be one of {', '.join(EFFECTS)}, not {value!r}")


def _tuple_of(kind: type[T], name: str, value: object) -> tuple[T, ...]:
    if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
        raise ValueError(f"{name}= must be a tuple of {kind.__name__}")
    return value


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Declaration:
    """The arguments of ``Rule(...)``; in a rule file they are literals, so that they can be read.

    Args:
        code: ``TL`` and three digits, the first of them the family's; of a plugin, other letters.
        message: the finding's one line; ``{placeholders}`` are filled from `Hit.args`.
        severity: ``"error"``, ``"warning"`` or ``"info"``, before configuration.
        default: whether the rule is on when nothing is selected.
        triggers: byte strings of which a file must hold at least one for the rule to find anything.
        yields_to: codes of more specific rules; where one of them hits the same expression, this
            rule is silent.
        equivalence: what the unsafe fix keeps of the results, for `torchlint verify`:
            ``"bitwise"``, ``"close"`` (rounding may differ), ``"rng"`` (other random numbers of the
            same distribution) or ``"opt-in"`` (they change by design).
        runs: how often a place has to run for the checks to find it: ``"anywhere"`` (it is not
            asked), ``"once"`` (it costs each time, and findings say why it runs often),
            ``"sample"`` (for every sample, or more often), ``"hot"`` (every training step,
            evaluation batch or forward pass), ``"batch"`` (every training step or evaluation
            batch), ``"step"`` (every step that trains, or forward pass) or ``"train"`` (every
            training step).
        effect: what fixing a finding takes out of a run at most, for `torchlint profile`. Of what
            the finding's statement does: ``"wait"`` (its waits for the device), ``"copy"`` (these
            and its copies between host and device), ``"host"`` (all time of the host in it, these
            included), ``"launch"`` (its launches become one, and it waits no more) or ``"gpu"``
            (all of it, on the host and the device), or ``"upload"`` (as ``"host"``, of work that a
            device does instead, so that it takes out nothing where there is none), or ``"sample"``
            (as ``"host"``, of work for a sample; where nobody knows its lines, as ``"loader"``).
            Elsewhere: ``"loader"`` (the waits for batches) or ``"memory"`` (the allocator's calls
            of the driver). ``"none"`` is a rule whose findings cost at no place that a trace shows,
            or cost no time.
        since: the release that brought the rule; empty for one of our first release, and where a
            plugin does not say.
    """

    code: str
    message: str = field(metadata={"check": _message})
    severity: str = field(metadata={"check": _severity})
    default: bool = field(metadata={"check": _default})
    triggers: tuple[bytes, ...] = field(metadata={"check": _triggers})
    yields_to: tuple[str, ...] = field(default=(), metadata={"check": _yields_to})
    equivalence: str = field(default="close", metadata={"check": _equivalence})
    runs: str = field(default="anywhere", metadata={"check": _runs})
    effect: str = field(default="none", metadata={"check": _effect})
    since: str = field(default="", metadata={"check": _since})


ARGUMENTS = tuple(spec.name for spec in fields(Declaration))


def checked(literals: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the literals of a rule file, which may become the fields of a `Declaration`.

    Raises:
        ValueError: an argument is missing or of a wrong form. The form of the code is not looked
            at: it depends on whose rule it is.
    """
    for spec in fields(Declaration):
        if spec.name not in literals:
            if spec.default is MISSING:
                raise ValueError(f"Rule(...) lacks {spec.name}=")
        elif "check" in spec.metadata:
            spec.metadata["check"](literals[spec.name])
    if literals["code"] in literals.get("yields_to", ()):
        raise ValueError(f"yields_to= names {literals['code']!r}, which is not another rule's code")
    return literals
