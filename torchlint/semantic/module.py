"""The questions a rule may ask about one file. Every answer is computed on demand and remembered.

Facts are three-valued where that matters: True, False, or None for unknown; unknown never satisfies a rule that
is on by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from torchlint.semantic import compat, imports
from torchlint.semantic import scopes as scope_facts
from torchlint.semantic import torch_api
from torchlint.semantic.accumulators import Accumulator, accumulator
from torchlint.semantic.flow import Flow
from torchlint.semantic.guards import Guards
from torchlint.semantic.heat import Grade, Heat, HeatMap, Why
from torchlint.semantic.host_reads import HostRead, HostReads
from torchlint.semantic.iterations import Goes, Iterations
from torchlint.semantic.loops import LoopKind, Loops
from torchlint.semantic.names import Names, dotted_text
from torchlint.semantic.scopes import Scopes
from torchlint.semantic.tree import COMPREHENSIONS, LOOPS, Comprehension, Function, Loop, Tree
from torchlint.semantic.values import ACCEL, CPU, CUDA, META, Value, Values

__all__ = [
    "ACCEL",
    "COMPREHENSIONS",
    "CPU",
    "CUDA",
    "LOOPS",
    "META",
    "Arguments",
    "Comprehension",
    "Function",
    "Grade",
    "Heat",
    "HostRead",
    "Loop",
    "LoopKind",
    "Module",
    "Value",
    "Why",
    "dotted_text",
]

_ACCEL = re.compile(r"cuda|\bdevice\b|\bgpus?\b|accelerat|\bmps\b|LightningModule|\bTrainer\b", re.IGNORECASE)
_TIMING = ("torch.cuda.Event", "torch.utils.benchmark.Timer")
_ORIGIN_ON_DEVICE = ("model", "loss", "forward")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call by parameter name; `open` where ``*args`` or ``**kwargs`` may add more."""

    named: Mapping[str, cst.Arg]
    open: bool

    def value(self, name: str) -> cst.BaseExpression | None:
        """Return the expression given for a parameter, or None."""
        arg = self.named.get(name)
        return arg.value if arg is not None else None


class Module:
    """One parsed file with all that the analysis knows about it."""

    def __init__(
        self,
        root: cst.Module,
        text: str,
        filename: str,
        *,
        target_torch: tuple[int, int] = (2, 4),
        accelerator: str = "auto",
        assume_hot: tuple[str, ...] = (),
    ) -> None:
        self.root = root
        self.text = text
        self.filename = filename
        self.target_torch = target_torch
        self.accelerator = accelerator
        self.tree = Tree(root)
        self._names = Names(self.tree, filename)
        self._scopes = Scopes(self.tree, self._names)
        self._flow = Flow(self.tree, self._names, self._scopes)
        self._guards = Guards(self.tree, self._names)
        self._values = Values(self.tree, self._names, self._scopes, self._flow, text)
        self._loops = Loops(self.tree, self._names, self._scopes, self._flow, self._values)
        self._iterations = Iterations(self.tree, self._names, self._flow, self._values)
        self._heat = HeatMap(
            self.tree, self._scopes, self._flow, self._guards, self._loops, assume_hot, self._takes_tensors
        )
        self._reads = HostReads(self)
        self._no_grad: dict[cst.CSTNode, bool | None] = {}
        self._accel: bool | None = None
        self._bench_file = scope_facts.is_bench_path(filename)

    # -- places -------------------------------------------------------------------------------------------------

    def nodes(self, *types: type[cst.CSTNode]) -> list[cst.CSTNode]:
        """Return all nodes of exactly these types in source order."""
        return self.tree.nodes(*types)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node that holds `node`."""
        return self.tree.parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the parent, its parent, and so on up to the module."""
        return self.tree.ancestors(node)

    def within(self, node: cst.CSTNode, *types: type[cst.CSTNode], nested: bool = False) -> Iterator[cst.CSTNode]:
        """Yield `node` and its descendants of these types; bodies of inner functions only if `nested`."""
        return self.tree.within(node, *types, nested=nested)

    def is_within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Say whether `node` is `outer` or lies inside it."""
        return self.tree.is_within(node, outer)

    def before(self, a: cst.CSTNode, b: cst.CSTNode) -> bool:
        """Say whether `a` comes before `b` in the file."""
        return self.tree.order[a] < self.tree.order[b]

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement (simple line or compound) that holds `node`."""
        return self.tree.statement(node)

    def small_statement(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the small statement that holds `node`, or None inside a compound statement's header."""
        return self.tree.small_statement(node)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the ``def`` that holds `node`, or None at module level."""
        return self._scopes.function(node)

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class whose body or methods hold `node`."""
        return self._scopes.class_of(node)

    def loops(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
        """Return the loops of the same function whose body repeats `node`, innermost first."""
        out: list[cst.For | cst.While] = []
        child = node
        for above in self.tree.ancestors(node):
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
                break
            if isinstance(above, LOOPS) and (
                child is above.body or (isinstance(above, cst.While) and child is above.test)
            ):
                out.append(above)
            child = above
        return out

    # -- names and calls ----------------------------------------------------------------------------------------

    def name(self, node: cst.CSTNode | None) -> str | None:
        """Return the one dotted name of an expression (``torch.utils.data.DataLoader``), or None."""
        return self._names.name(node)

    def arguments(self, call: cst.Call, signature: str) -> Arguments:
        """Bind a call's arguments to the parameters of a signature named in `torch_api.SIGNATURES`.

        Raises:
            KeyError: there is no such signature.
        """
        params = torch_api.SIGNATURES[signature]
        named: dict[str, cst.Arg] = {}
        position, is_open = 0, False
        for arg in call.args:
            if arg.star:
                is_open = True
                position = len(params) if arg.star == "*" else position
            elif arg.keyword is not None:
                named[arg.keyword.value] = arg
            elif position < len(params):
                named[params[position]] = arg
                position += 1
        return Arguments(named, is_open)

    def keyword(self, call: cst.Call, name: str) -> cst.BaseExpression | None:
        """Return the expression of a keyword argument, or None."""
        return next((a.value for a in call.args if a.keyword is not None and a.keyword.value == name), None)

    def callees(self, call: cst.Call) -> tuple[Function, ...]:
        """Return the functions of this file that a call may reach."""
        return self._flow.callees(call)

    def call_sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """Return the calls in this file that may reach a function."""
        return self._flow.sites(function)

    def local_class(self, node: cst.CSTNode | None) -> cst.ClassDef | None:
        """Return the class of this file that an expression names."""
        return self._scopes.local_class(node)

    def base_names(self, cls: cst.ClassDef) -> list[str]:
        """Return the dotted names of a class's bases outside this file."""
        return self._scopes.base_names(cls)

    def method(self, cls: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """Return what an instance of the class finds under `name` in this file."""
        return self._scopes.method(cls, name)

    def reads(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the reads of a plain name inside `scope` (nested functions included)."""
        return self._flow.reads(scope, name)

    def writes(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the places inside `scope` that bind a plain name."""
        return self._flow.writes(scope, name)

    def binds_globally(self, function: cst.CSTNode, name: str) -> bool:
        """Say whether a function declares `name` global or nonlocal."""
        return name in self._names.outer.get(function, ())

    def definition(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return the expression that a plain name is assigned in its one and only binding, or None."""
        return self._iterations.definition(node)

    def import_of(self, node: cst.CSTNode) -> cst.Import | cst.ImportFrom | None:
        """Return the one import statement that binds the first name of ``a.b.c``, or None."""
        return imports.import_of(node, self._names)

    def import_reads(self, home: cst.Import | cst.ImportFrom) -> list[cst.Name]:
        """Return the reads of all names that an import statement binds; those in annotations are left out."""
        return imports.reads_of(home, self._names, self._flow, self.tree)

    def use(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the call, or the bare decorator, in which a reference ends; None for any other use."""
        return imports.use_of(node, self.tree)

    def version_guarded(self, node: cst.CSTNode) -> bool:
        """Say whether `node` is one branch of code for several versions of a library."""
        return compat.version_guarded(node, self.tree, self._guards, self._iterations)

    # -- values -------------------------------------------------------------------------------------------------

    def value(self, node: cst.CSTNode) -> Value:
        """Return the abstract value of an expression, of an assigned target, or of an augmented assignment."""
        return self._values.value(node)

    def class_attribute(self, cls: cst.ClassDef, attr: str) -> Value:
        """Return what ``self.attr`` holds, gathered over the class."""
        return self._values.class_attribute(cls, attr, 2)

    def is_module_class(self, cls: cst.ClassDef | None) -> bool:
        """Say whether a class of this file is an nn.Module."""
        return self._scopes.is_module(cls)

    def is_lightning(self, node: cst.CSTNode) -> bool:
        """Say whether `node` lies in a LightningModule."""
        return self._scopes.is_lightning(self._scopes.class_of(node))

    @property
    def accel(self) -> bool:
        """Whether the file (or the configuration) shows that the code runs on an accelerator."""
        if self._accel is None:
            if self.accelerator == "auto":
                self._accel = bool(_ACCEL.search(self.text)) or any(
                    self._scopes.is_module(c) for c in self.nodes(cst.ClassDef) if isinstance(c, cst.ClassDef)
                )
            else:
                self._accel = self.accelerator != "cpu"
        return self._accel

    def on_device(self, node: cst.CSTNode) -> bool | None:
        """Say whether an expression is a tensor on the accelerator; None where unknown."""
        value = self.value(node)
        if value.host or not self.accel:
            return False
        if not value.tensor:
            return None
        if value.device in (CUDA, ACCEL):
            return True
        return True if value.device is None and value.origin in _ORIGIN_ON_DEVICE else None

    def scalar_reads(self, node: cst.CSTNode) -> Iterator[HostRead]:
        """Yield the reads of a device scalar that a call, subscript, f-string or ``%`` format makes itself."""
        return self._reads.scalars(node)

    def host_copy(self, call: cst.Call) -> HostRead | None:
        """Return the copy of a device tensor to the host that a method call makes, or None."""
        return self._reads.copy(call)

    def accumulator(self, step: cst.AugAssign) -> Accumulator | None:
        """Return the running sum that ``name += …`` feeds, where nothing sees it before its loop has ended."""
        return accumulator(self, step)

    def code(self, node: cst.CSTNode, limit: int = 60) -> str:
        """Return the source of an expression on one line, cut after `limit` characters, for a message."""
        text = " ".join(self.root.code_for_node(node).split())
        return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

    def devlike(self, node: cst.CSTNode | None) -> str | None:
        """Return the device an expression names: `CUDA`, `ACCEL` (the program's own), `CPU`, `META`, or None."""
        if node is None:
            return None
        return self._values.run(self._owner(node), 3).device_of(self.value(node))

    def _owner(self, node: cst.CSTNode) -> cst.CSTNode:
        owner: cst.CSTNode = self.tree.owners.get(node, self.root)
        while isinstance(owner, cst.Lambda):
            owner = self.tree.owners[owner]
        return owner

    def is_model_call(self, call: cst.Call) -> bool:
        """Say whether a call runs a model (not a loss)."""
        return self._values.is_model_call(call)

    def is_loader(self, node: cst.CSTNode) -> bool:
        """Say whether iterating over an expression goes through a loader's batches."""
        return self._values.loader_of(node)

    def _takes_tensors(self, function: cst.FunctionDef) -> bool:
        env = self._values.run(function, 0)
        first = [p.name.value for p in function.params.params if p.name.value not in ("self", "cls")]
        return any(env.values.name_evidence(function, name, Value()).tensor for name in first) or any(
            name is not None and name.startswith("torch.")
            for call in self.within(function.body, cst.Call)
            if isinstance(call, cst.Call)
            for name in (self.name(call.func),)
        )

    # -- time ---------------------------------------------------------------------------------------------------

    def heat(self, node: cst.CSTNode) -> Heat:
        """Return how often `node` runs; throttled places are cold."""
        return self._heat.heat(node)

    def function_heat(self, function: cst.FunctionDef) -> Heat:
        """Return how often a function's body runs."""
        return self._heat.function_heat(function)

    def loop_kind(self, loop: cst.CSTNode) -> LoopKind:
        """Say what one iteration of a For or While loop is."""
        return self._loops.kind(loop)

    def over(self, loop: cst.For | cst.CompFor) -> list[Goes]:
        """Return what a loop goes over, seen through ``enumerate``, ``zip`` and the like."""
        return self._iterations.over(loop)

    def count(self, loop: Loop | cst.CompFor) -> int | None:
        """Return how often a loop runs where the source says it in literals."""
        return self._iterations.count(loop)

    def structural(self, loop: Loop | cst.CompFor) -> bool:
        """Say whether a loop goes over parts of a network (layers, heads, parameters), not over data."""
        return self._iterations.structural(loop)

    def reset(self, loop: Loop, place: cst.CSTNode, at: cst.CSTNode) -> bool:
        """Say whether every iteration binds a place (``x``, ``self.x``, ``d[k]``) anew before it comes to `at`."""
        return self._iterations.reset(loop, place, at)

    def carried(self, loop: Loop) -> list[cst.Name]:
        """Return the reads in a loop's body that may find what an earlier iteration has bound."""
        return self._iterations.carried(loop)

    def same(self, scope: cst.CSTNode, place: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the expressions inside `scope` that are spelled like a name, attribute or subscript."""
        return self._iterations.same(scope, place)

    def inner_loop(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the loop or comprehension that repeats `node` within one hot step, or None."""
        return self._heat.inner_loop(node, self.heat(node))

    def is_step(self, call: cst.Call) -> bool:
        """Say whether a call is a backward pass, an optimizer step or a gradient scaler's step."""
        return self._loops.is_step(call)

    def steps(self, loop: cst.CSTNode) -> list[cst.Call]:
        """Return the backward and optimizer step calls of one loop."""
        return self._loops.steps(loop)

    def has_model_call(self, node: cst.CSTNode) -> bool:
        """Say whether a model runs inside `node`, or in a local function called from there."""
        return self._loops.has_model_call(node)

    def throttled(self, node: cst.CSTNode, until: cst.CSTNode | None = None) -> bool:
        """Say whether a condition makes `node` run only now and then inside `until` (default: its function)."""
        return self._guards.throttled(node, until)

    def tests(self, node: cst.CSTNode, until: cst.CSTNode | None = None) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """Yield the conditions on which `node` runs inside `until`, with the truth each needs."""
        return self._guards.tests(node, until)

    def error_path(self, node: cst.CSTNode) -> bool:
        """Say whether `node` runs only on the way to an exception: in a raise, an assert's message, a handler."""
        return self._guards.error_path(node)

    def is_interval(self, test: cst.CSTNode) -> bool:
        """Say whether a test is true only for some steps."""
        return self._guards.is_interval(test)

    def is_debug(self, test: cst.CSTNode) -> bool:
        """Say whether a test reads a debug flag."""
        return self._guards.is_debug(test)

    def leaves(self, suite: cst.BaseSuite) -> bool:
        """Say whether a block ends in continue, break, return or raise."""
        return self._guards.leaves(suite)

    def bench(self, node: cst.CSTNode) -> bool:
        """Say whether `node` is benchmark or test code: by path, by function name, or by CUDA timing events."""
        if self._bench_file:
            return True
        for function in self._scopes.enclosing_functions(node):
            if scope_facts.is_bench_name(function.name.value):
                return True
            if any(self.name(c.func) in _TIMING for c in self.within(function, cst.Call) if isinstance(c, cst.Call)):
                return True
        return False

    def compiled(self, node: cst.CSTNode) -> bool:
        """Say whether `node` lies in a function given to torch.compile or torch.jit.script in this file."""
        for function in self._scopes.enclosing_functions(node):
            if any(name in ("torch.compile", "torch.jit.script") for _, name in self._scopes.decorators(function)):
                return True
            if self._passed_to_compile(function.name.value):
                return True
        return False

    def _passed_to_compile(self, name: str) -> bool:
        for call in self.nodes(cst.Call):
            if (
                isinstance(call, cst.Call)
                and call.args
                and self.name(call.func) in ("torch.compile", "torch.jit.script")
                and dotted_text(call.args[0].value) == name
            ):
                return True
        return False

    # -- autograd -----------------------------------------------------------------------------------------------

    def no_grad(self, node: cst.CSTNode) -> bool | None:
        """Say whether autograd is off at `node`: by the text around it, or as every caller in the file has it off."""
        held = self._scopes.lexical_no_grad(node)
        if held is not None:
            return held
        if self._scopes.conditional_grad(node):
            return None
        function = self._scopes.function(node)
        return self._function_no_grad(function) if function is not None else False

    def _function_no_grad(self, function: cst.FunctionDef) -> bool | None:
        if function not in self._no_grad:
            self._no_grad[function] = None
            self._no_grad[function] = self._callers_no_grad(function)
        return self._no_grad[function]

    def _callers_no_grad(self, function: cst.FunctionDef) -> bool | None:
        if self.is_lightning(function) and function.name.value in (
            "validation_step",
            "test_step",
            "predict_step",
        ):
            return True
        sites = [s for s in self._flow.sites(function) if self._scopes.function(s) is not function]
        verdicts = {self.no_grad(site) for site in sites}
        if not verdicts:
            return False
        return verdicts.pop() if len(verdicts) == 1 else None

    # -- file ---------------------------------------------------------------------------------------------------

    @property
    def main_guard(self) -> bool:
        """Whether the file has ``if __name__ == "__main__":``."""
        return re.search(r"^if\s+__name__\s*==\s*['\"]__main__['\"]", self.text, re.MULTILINE) is not None

    @property
    def framework(self) -> bool:
        """Whether a framework that moves batches or owns the loop is imported (Lightning, Accelerate, Ignite, …)."""
        return self._values.framework
