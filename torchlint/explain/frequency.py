"""How often a line runs, in words: the grade, the chain of evidence, and of a cold line the
reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from torchlint.base.explanation import Guard, Pace
from torchlint.base.finding import Reason
from torchlint.explain.line import Spots
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.debug_flags import is_debug
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.guards import throttle
from torchlint.semantic.code.intervals import is_interval
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import LOOPS
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.module import Module
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.entry_points import uncalled
from torchlint.semantic.time.grades import Grade, Heat, Why
from torchlint.semantic.time.heat import function_heat, heat_of, may_be_hot, not_used
from torchlint.semantic.time.loops import LoopKind, loop_kind

_GRADES = {
    Grade.TRAIN: "runs every training step",
    Grade.EVAL: "runs for every batch",
    Grade.FORWARD: "runs in every forward pass",
    Grade.SAMPLE: "runs for every sample that a dataset gives, on the CPU",
    Grade.EPOCH: "runs once per epoch",
    Grade.COLD: "does not run every step",
}
_BESIDE = {
    Grade.EVAL: ", not in a training step",
    Grade.FORWARD: ", and forward passes run outside of training as well",
    Grade.SAMPLE: ", not in a training step",
}
"""What is added where a hot line is not hot enough for a rule."""
_SITES = 3


class Paces:
    """Says how often lines run."""

    def __init__(self, module: Module, spots: Spots, reason: Callable[[Why], Reason]) -> None:
        self.module = module
        self.spots = spots
        self.reason = reason

    def of(self, node: cst.CSTNode) -> Pace | None:
        """Return how often a node runs; of a loop or function, how often its body does; None for
        mere declarations."""
        if isinstance(node, cst.ClassDef) or self._declares(node):
            return None
        body = node.body.body if isinstance(node, LOOPS) else ()
        at = body[0] if body else node
        heat = (
            function_heat(self.module, at)
            if isinstance(at, cst.FunctionDef)
            else heat_of(self.module, self._inner(at))
        )
        words = f"its body {self._words(at, heat)}" if body else self._words(at, heat)
        idle = not_used(self.module, at)
        words = f"{words}, if anything used it" if idle else words
        why = tuple(self.reason(why) for why in idle or heat.why)
        return Pace(
            heat.grade.name.lower(), words, why, tuple(self._guards(node)), tuple(self._roles(at))
        )

    def _declares(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.SimpleStatementLine) and all(
            isinstance(small, (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal, cst.Pass))
            or (isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString))
            for small in node.body
        )

    def sentence(self, node: cst.CSTNode) -> str:
        """Return why a node is not as hot as a rule demands, as half a sentence."""
        if isinstance(node, (cst.FunctionDef, cst.Module, cst.ClassDef)):
            heat = (
                function_heat(self.module, node)
                if isinstance(node, cst.FunctionDef)
                else Heat(Grade.COLD)
            )
        else:
            heat = heat_of(self.module, self._inner(node))
        return f"the line {self._words(node, heat)}{_BESIDE.get(heat.grade, '')}"

    def _inner(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return a part of a loop's header that runs as often as the header is met."""
        if isinstance(node, cst.For):
            return node.iter
        return node.test if isinstance(node, (cst.If, cst.While)) else node

    def _words(self, node: cst.CSTNode, heat: Heat) -> str:
        if isinstance(node, cst.FunctionDef):
            if node.name.value == "__init__" and not heat.hot:
                return "is a constructor: it runs once for each object that is made"
            words = f"is a function whose body {_GRADES[heat.grade]}"
            return (
                words if heat.grade is not Grade.COLD else f"is a function: {self._callers(node)}"
            )
        if heat.grade in (Grade.EPOCH, Grade.COLD):
            return self._cold(node, heat)
        return _GRADES[heat.grade]

    def _cold(self, node: cst.CSTNode, heat: Heat) -> str:
        """Say why a line is not hot: a condition, no loop over batches, or nobody who calls its
        function often."""
        module, at = self.module, self._inner(node)
        rare = self._throttle(at)
        if rare is not None:
            return f"runs only now and then, behind {self._test(rare)}"
        if heat.grade is Grade.EPOCH:
            return _GRADES[Grade.EPOCH]
        loops = [loop for loop in module.loops(at) if loop_kind(module, loop) is not LoopKind.EPOCH]
        where = ""
        if loops:
            head = f"`{self._head(loops[0])}` ({self.spots.lines(loops[0])})"
            where = (
                f"the loop around it, {head}, iterates over no batches, takes no training steps "
                "and runs no model"
            )
        function = module.function(at)
        line = at.body[0] if isinstance(at, cst.SimpleStatementLine) else at
        bound = line.value if isinstance(line, cst.Assign) else at
        around = (bound, *module.ancestors(at))
        if function is None and not where and any(isinstance(each, cst.Lambda) for each in around):
            return "runs where its lambda is called: nothing shows that this is in a step"
        if function is None:
            return f"does not run every step: {where}" if where else "runs once: it is in no loop"
        if function.name.value == "__init__":
            return (
                f"does not run every step: {where}"
                if where
                else "runs once for each object that is made"
            )
        once = f"runs once for each call of {function.name.value}()"
        callers = self._callers(
            function
        )  # a loop over anything is hot in a function that a step calls
        return f"does not run every step: {where}, and {callers}" if where else f"{once}: {callers}"

    def _callers(self, function: cst.FunctionDef) -> str:
        name = function.name.value
        sites = [
            site
            for site in call_sites(self.module, function)
            if self.module.function(site) is not function
        ]
        if not sites:
            return f"nothing shows that {name}() is called in a step"
        lines = self.spots.lines(*sites, most=_SITES)
        rare = next((found for site in sites if (found := self._throttle(site)) is not None), None)
        if rare is not None and len(sites) == 1:
            return f"it is called ({lines}) only behind {self._test(rare)}"
        return f"it is called outside of steps ({lines})"

    def _throttle(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the condition that makes a node rare inside its hot loop, else inside its
        function."""
        for above in self.module.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                break
            if isinstance(above, LOOPS) and loop_kind(self.module, above) in (
                LoopKind.TRAIN,
                LoopKind.EVAL,
            ):
                return throttle(self.module, node, above)
        return throttle(self.module, node, self.module.function(node))

    def _test(self, test: cst.CSTNode) -> str:
        return f"`if {self.module.shown(test)}` ({self.spots.lines(test)})"

    def _head(self, loop: cst.CSTNode) -> str:
        if isinstance(loop, cst.For):
            return f"for {self.module.shown(loop.target, 20)} in {self.module.shown(loop.iter, 40)}"
        return f"while {self.module.shown(loop.test, 40)}" if isinstance(loop, cst.While) else ""

    def _guards(self, node: cst.CSTNode) -> Iterator[Guard]:
        at = self._inner(node)
        if isinstance(at, cst.FunctionDef):
            return
        for test, needed in conditions_around(self.module, at):
            throttles = (
                throttle(self.module, at) is test
                or is_interval(self.module, test)
                or is_debug(self.module, test)
            )
            yield Guard(self.module.shown(test), self.spots.row(test), needed, throttles)

    def _roles(self, node: cst.CSTNode) -> Iterator[str]:
        module = self.module
        if is_benchmark(module, node):
            yield "benchmark or test code (its path, a function's name, or CUDA timing events)"
        if unreached(module, node):
            yield "where no ordinary run comes to"
        if (name := uncalled(module, node)) is not None:
            yield f"in {name}(), a private function of which nobody in the project speaks"
        grad = no_grad(module, node)
        if grad is True:
            yield "autograd is off"
        elif grad is None and may_be_hot(module, node):
            yield "whether autograd is on is not known: callers differ, or a flag decides"
        if is_compiled(module, node):
            yield "compiled by torch.compile or torch.jit.script"
