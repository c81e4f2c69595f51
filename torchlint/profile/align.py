"""Which call site of a function made each of its calls: the cheapest way through the function.

What a function called stands in a trace in order, and so do its call sites in the source. To go on
over a site that made no call that is seen costs little, to go back costs little inside of a loop
alone, and a call that no site explains costs most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from torchlint.base.records import frozen
from torchlint.profile.callsites import Body, CallSite
from torchlint.profile.protocols import READERS, READS

SKIP = 0.02
_BACK = 0.05
_UNMATCHED = 1.0
_AGAIN = 0.01
_FAR = 20
"""Sites from which on skipping another one costs a tenth."""
_SAME = 0.001
"""Ways whose costs differ by less cost the same."""
_BEAM = 2.5
"""Ways that cost so much more than the cheapest are given up."""
_DYNAMIC = 0.3
"""What a call of whatever a variable holds costs more than one by name."""
_WRAPPED = 0.1
_NEVER = float("inf")
CONSTRUCTS = frozenset({"__init__", "__new__", "__post_init__"})
_COMPREHENSION = re.compile(r"<(?:list|set|dict)comp>|<genexpr>")
_SEVERAL = frozenset(
    {"subscript", "unpack", "operator", "next", "format", "test", "class", "import"}
)
"""Kinds of sites that may make several calls at once."""
Candidates = tuple[tuple[int, float], ...]
"""Sites by number, with what it costs to take each for the one that made a call."""


@frozen
class Called:
    """What a function called, as a trace shows it.

    Args:
        kind: ``"builtin"``, ``"function"``, ``"module"``, ``"operator"`` or ``"call"`` (of a
            driver).
        name: of the function, the class of a module, or the operator.
        line: of a function's beginning.
        same: whether a function stands in the caller's file.
        classes: to which a constructor may belong; empty where that is not known.
        generator: whether a function is known to be a generator, which runs when one goes over it.
        inner: names of what it calls itself, where it may be a wrapper.
        own: those of them that are functions of the program.
    """

    kind: str
    name: str
    line: int = 0
    same: bool = False
    classes: frozenset[str] = frozenset()
    generator: bool = False
    inner: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()


@frozen
class Placed:
    """The line of a call, 0 where none is known, and whether it is the only one that can have made
    it."""

    line: int
    only: bool


NOWHERE = Placed(0, False)


class Aligner:
    """Finds the lines of one function's calls; calls that came in one order are found once."""

    def __init__(self, body: Body, *, builtins: bool) -> None:
        """Take up a function.

        Args:
            body: its call sites.
            builtins: whether the trace shows calls of built-in functions.
        """
        self.body = body
        self._builtins = builtins
        self._candidates: dict[Called, tuple[Candidates, bool]] = {}
        self._known: dict[tuple[Called, ...], tuple[Placed, ...]] = {}

    def lines(self, calls: tuple[Called, ...]) -> tuple[Placed, ...]:
        """Return where each of a function's calls stands, in their order."""
        found = self._known.get(calls)
        if found is None:
            found = self._known[calls] = self._placed(calls)
        return found

    def unexplained(self) -> set[str]:
        """Return the names of functions that were called so far, and that no site can call."""
        return {
            called.name
            for called, (candidates, _) in self._candidates.items()
            if called.kind in ("builtin", "function") and not candidates
        }

    @property
    def asked(self) -> int:
        """Return how many names of functions were called so far."""
        kinds = ("builtin", "function")
        return len({called.name for called in self._candidates if called.kind in kinds})

    def _placed(self, calls: Sequence[Called]) -> tuple[Placed, ...]:
        each = [self.candidates(called) for called in calls]
        sites = self.body.sites
        lines = [{sites[at].line for at, _ in candidates} for candidates, _ in each]
        if all(len(found) < 2 for found in lines):
            way: list[int | None] = [
                candidates[0][0] if candidates else None for candidates, _ in each
            ]
        else:
            way = self._cheapest_way([candidates for candidates, _ in each])
        found = []
        for (candidates, named), taken, known in zip(each, way, lines, strict=True):
            if len(known) == 1 and named:
                found.append(Placed(sites[candidates[0][0]].line, True))
            else:
                found.append(NOWHERE if taken is None else Placed(sites[taken].line, False))
        return tuple(found)

    def candidates(self, called: Called) -> tuple[Candidates, bool]:
        """Return the sites that can have made a call, and whether it is by their names."""
        found = self._candidates.get(called)
        if found is None:
            found = self._candidates[called] = self._matching(called)
        return found

    def _matching(self, called: Called) -> tuple[Candidates, bool]:
        named = self._named(called)
        if called.name == "__getattr__":
            ours = [(at, 0.0 if self.body.sites[at].own else _WRAPPED) for at in named]
            return tuple(ours), True
        if named:
            others = self._variables(named) if called.kind == "module" else []
            found = [(at, 0.0) for at in named] + [(at, _WRAPPED) for at in others]
            return tuple(found), not others
        for names, sure in ((called.own, True), (called.inner, False)):
            wrapped = self._calling(names)
            if wrapped:
                return tuple((at, _WRAPPED) for at in wrapped), sure
        weak = []
        makes = called.name in CONSTRUCTS
        for at, site in enumerate(self.body.sites):
            if makes and (_looks_like_class(site) or called.name in site.names):
                weak.append((at, 0.0))
            elif site.method and called.kind in ("builtin", "operator"):
                continue
            elif site.open and not (called.kind == "module" and site.classes):
                weak.append((at, _DYNAMIC if site.kind == "call" else _DYNAMIC + _WRAPPED))
        return tuple(weak), False

    def _calling(self, names: frozenset[str]) -> list[int]:
        """Return the sites that call one of some functions."""
        return self._places_that(
            lambda site: (
                bool(site.operators & names)
                or (site.kind not in ("load", "store") and bool(site.names & names))
            )
        )

    def _variables(self, named: list[int]) -> list[int]:
        """Return the sites, some left out, that call what may be any module."""
        sites = enumerate(self.body.sites)
        return [
            at
            for at, site in sites
            if site.open and site.kind == "call" and not site.classes and at not in named
        ]

    def _places_that(self, fits: Callable[[CallSite], bool]) -> list[int]:
        return [at for at, site in enumerate(self.body.sites) if fits(site)]

    def _named(self, called: Called) -> list[int]:
        """Return the sites that say what was called."""
        name = called.name
        if called.kind == "operator":
            reads = name in READS and not self._builtins
            return self._places_that(
                lambda site: (
                    name in site.operators
                    or (not self._builtins and name.rstrip("_") in site.names)
                    or (reads and bool(site.names & READERS))
                )
            )
        if called.kind == "module":
            return self._places_that(lambda site: name in site.classes)
        if called.kind == "call":
            return []
        if _COMPREHENSION.fullmatch(name):
            return (
                self._places_that(
                    lambda site: (
                        name in site.names and (site.line == called.line or site.kind != "inner")
                    )
                )
                if called.same
                else []
            )
        if name in CONSTRUCTS:
            wanted = called.classes | {name}
            return (
                self._places_that(lambda site: bool(site.names & wanted)) if called.classes else []
            )
        if called.generator:
            over = self._places_that(lambda site: site.kind != "call" and name in site.names)
            return over or self._places_that(lambda site: name in site.names)
        return self._places_that(lambda site: name in site.names)

    def _cheapest_way(self, each: Sequence[Candidates]) -> list[int | None]:
        """Return the cheapest way through the sites: one for each call, None where none made it, or
        where another line is as cheap."""
        costs: dict[int, float] = {-1: 0.0}
        before: list[dict[int, float]] = []
        for candidates in each:
            before.append(costs)
            following = {at: cost + _missed(candidates) for at, cost in costs.items()}
            for at, own in candidates:
                reached = own + min(cost + self._step(last, at) for last, cost in costs.items())
                following[at] = min(following.get(at, _NEVER), reached)
            least = min(following.values())
            costs = {at: cost - least for at, cost in following.items() if cost - least < _BEAM}
        # Backwards: what is left to pay behind each site; with it, what each choice costs in all.
        left = dict.fromkeys(costs, 0.0)
        way: list[int | None] = []
        for candidates, costs in zip(reversed(each), reversed(before), strict=True):
            rest = {last: left.get(last, _NEVER) + _missed(candidates) for last in costs}
            choices: dict[int | None, float] = {
                None: min(cost + rest[last] for last, cost in costs.items())
            }
            for at, own in candidates:
                behind = own + left.get(at, _NEVER)
                for last, cost in costs.items():
                    total = self._step(last, at) + behind
                    choices[at] = min(choices.get(at, _NEVER), cost + total)
                    rest[last] = min(rest[last], total)
            way.append(self._clear(choices))
            left = rest
        return way[::-1]

    def _clear(self, choices: dict[int | None, float]) -> int | None:
        """Return the cheapest choice; None where one on another line costs the same."""
        best = min(choices, key=lambda at: choices[at])
        if best is None:
            return None
        line = self.body.sites[best].line
        others = (
            cost for at, cost in choices.items() if at is None or self.body.sites[at].line != line
        )
        return best if min(others, default=_NEVER) > choices[best] + _SAME else None

    def _step(self, before: int, at: int) -> float:
        """Return what it costs to go from one site to another."""
        known = self._steps.get((before, at))
        if known is None:
            known = self._steps[before, at] = self._cost(before, at)
        return known

    @cached_property
    def _steps(self) -> dict[tuple[int, int], float]:
        return {}

    def _cost(self, before: int, at: int) -> float:
        if at > before and not self._exclude(before, at):
            return _skipped(self._passed(before + 1, at, before, at))
        if at == before and self.body.sites[at].kind in _SEVERAL:
            return _AGAIN
        inside = [
            loop
            for loop in self.body.loops
            if loop[0] <= min(before, at) and max(before, at) < loop[1]
        ]
        if not inside:
            return _NEVER
        first, behind = min(inside, key=lambda loop: loop[1] - loop[0])
        rest = self._passed(before + 1, behind, before, before)
        return _BACK + _skipped(rest + self._passed(first, at, at, at))

    def _passed(self, first: int, behind: int, one: int, other: int) -> int:
        """Return how many sites one passes, at least, on the way from one to another: of conditions
        that hold neither, those of the shortest arm."""
        sites = self.body.sites
        taken = {condition for at in (one, other) if at >= 0 for condition, _ in sites[at].arms}
        inside = {arm for at in (one, other) if at >= 0 for arm in sites[at].arms}
        passed = 0
        choices: dict[int, dict[int, int]] = {}
        for site in sites[first:behind]:
            free = next((arm for arm in site.arms if arm[0] not in taken), None)
            if free is not None:
                arms = choices.setdefault(free[0], {})
                arms[free[1]] = arms.get(free[1], 0) + 1
            elif all(arm in inside for arm in site.arms):
                passed += 1
        counts = self.body.arms
        return passed + sum(
            min(arms.values()) if len(arms) == counts[condition] else 0
            for condition, arms in choices.items()
        )

    def _exclude(self, before: int, at: int) -> bool:
        """Say whether two sites stand in different arms of one condition."""
        if before < 0:
            return False
        arms = dict(self.body.sites[before].arms)
        return any(arms.get(number, arm) != arm for number, arm in self.body.sites[at].arms)


def _missed(candidates: Candidates) -> float:
    """Return what it costs that no site made a call: most where one alone can have."""
    return _UNMATCHED if len(candidates) != 1 else 2 * _UNMATCHED


def _looks_like_class(site: CallSite) -> bool:
    """Say whether a site calls what looks like a class."""
    names = (name.lstrip("_") for name in site.names)
    return site.kind == "call" and any(name[:1].isupper() for name in names)


def _skipped(count: int) -> float:
    return SKIP * min(count, _FAR) + SKIP / 10 * max(0, count - _FAR)
