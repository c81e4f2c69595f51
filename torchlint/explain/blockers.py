"""Which facts keep a rule silent: those without which it would flag the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from torchlint.base.records import frozen
from torchlint.explain.counterfactual import (
    DEVICE,
    PACE,
    WIDE,
    Answer,
    Key,
    Policy,
    World,
    holds,
    looks,
    otherwise,
)
from torchlint.rule import Hit, Mark, Rule
from torchlint.semantic.code.calls import Arguments
from torchlint.semantic.module import Module
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.source.python import MisreadError

_RUNS = 80
"""Imagined runs of one check on one node, at most."""
_BASES: tuple[frozenset[Policy], ...] = (
    frozenset(),
    frozenset((Policy.HOT,)),
    frozenset((Policy.ON_DEVICE,)),
    frozenset((Policy.HOT, Policy.ON_DEVICE)),
)


@frozen
class Blocked:
    """A rule whose check of `node` would give `hit`, were it not for the facts in `because`."""

    rule: Rule
    node: cst.CSTNode
    hit: Hit
    because: tuple[Answer, ...]


@frozen
class Looked:
    """A rule whose check looks at `node`, and gives nothing whatever single fact were otherwise.

    `last` is the last that it asked, and `holds` says whether anything that it asked holds.
    """

    rule: Rule
    node: cst.CSTNode
    last: Answer | None
    holds: bool


class Search:
    """Looks for the facts that keep rules silent about one line.

    Args:
        module: the analysis of the file.
        subjects: the expressions of the line.
        on_line: says whether a hit is one on the line.
    """

    def __init__(
        self, module: Module, subjects: frozenset[cst.CSTNode], on_line: Callable[[Hit], bool]
    ) -> None:
        self.module = module
        self.subjects = subjects
        self.on_line = on_line

    def blocked(self, rule: Rule, check: Mark, node: cst.CSTNode) -> Blocked | Looked | None:
        """Return what keeps a check silent about a node; None where it speaks, or does not look at
        such a node."""
        runs = [self._run_check(check, node, policies, {}) for policies in _BASES]
        if runs[0][0] is not None:
            return None
        found = self._because(rule, check, node, runs)
        if found is None and any(looks(asked) for _, asked in runs):
            true = [each for each in runs[0][1] if not isinstance(each.answer, Arguments)]
            some = any(holds(asked) for _, asked in runs)
            return Looked(rule, node, true[-1] if true else None, some)
        return found

    def _because(
        self,
        rule: Rule,
        check: Mark,
        node: cst.CSTNode,
        runs: Sequence[tuple[Hit | None, list[Answer]]],
    ) -> Blocked | None:
        left = _RUNS
        for policies, (hit, asked) in zip(_BASES, runs, strict=True):
            if hit is not None:
                return Blocked(rule, node, hit, self._needed(check, node, policies, asked))
            if not asked:
                return None
            for key, instead in self._singles(asked):
                left -= 1
                if left < 0:
                    return None
                hit, told = self._run_check(check, node, policies, {key: instead})
                if hit is not None:
                    return Blocked(rule, node, hit, self._needed(check, node, policies, told))
        return None

    def _run_check(
        self,
        check: Mark,
        node: cst.CSTNode,
        policies: frozenset[Policy],
        imagined: dict[Key, object],
    ) -> tuple[Hit | None, list[Answer]]:
        world = World(self.module, self.subjects, policies, imagined)
        try:
            asked = check.about is not None or check.may_run(world, node)
            hits = check(node, world) if asked else ()
            hit = next((hit for hit in hits if self.on_line(hit)), None)
        except (RecursionError, MemoryError, MisreadError):
            raise
        except (
            Exception
        ):  # answers that cannot all be true at once may trip a rule: nothing to learn
            return None, []
        return hit, world.asked

    def _singles(self, asked: Sequence[Answer]) -> Iterator[tuple[Key, object]]:
        """Yield the single facts to imagine otherwise, the last that was asked first: it mostly
        decided."""
        seen: set[Key] = set()
        for answer in reversed(asked):
            key = (answer.question,) if answer.question in WIDE else answer.key
            wide_no = answer.question in WIDE and not answer.answer
            follows = answer.question == "on_device" and not on_accelerator(self.module)
            if key not in seen and not (answer.changed or wide_no or follows):
                seen.add(key)
                yield from ((key, instead) for instead in otherwise(answer))

    def _needed(
        self, check: Mark, node: cst.CSTNode, policies: frozenset[Policy], told: Sequence[Answer]
    ) -> tuple[Answer, ...]:
        """Return those of the changed answers that made the difference, one for each kind of
        fact."""
        changed = list({answer.key: answer for answer in told if answer.changed}.values())
        pace = [answer for answer in changed if answer.question in PACE]
        device = [answer for answer in changed if answer.question in DEVICE]
        others = [answer for answer in changed if answer not in pace and answer not in device]
        if len(device) > 1:
            rest = policies - {Policy.ON_DEVICE}
            base = {answer.key: answer.given for answer in others}
            for answer in device:
                hit, _ = self._run_check(check, node, rest, {**base, answer.key: answer.given})
                if hit is not None:
                    device = [answer]
                    break
        if pace:  # the condition is told with it
            others = [answer for answer in others if answer.question != "conditions_around"]
        if device:  # that it is no tensor says as much
            others = [
                answer for answer in others if answer.question not in ("on_device", "one_tensor")
            ]
        subjects = [answer.subject for answer in device]
        outer = {
            above for node in subjects if node is not None for above in self.module.ancestors(node)
        }
        inner = [answer for answer in device if answer.subject not in outer]
        return (*pace[:1], *inner[:2], *others)
