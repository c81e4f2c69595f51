"""The questions a rule may ask about one file. Every answer is computed on demand and remembered.

Facts are three-valued where that matters: True, False, or None for unknown; unknown never satisfies a rule that
is on by default.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from torchlint.semantic.code import imports
from torchlint.semantic.code.consumers import Use
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.statements import Statements
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, Comprehension, Function, Loop
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.data.data_path import DataPath
from torchlint.semantic.data.frameworks import Frameworks
from torchlint.semantic.data.per_step_use import PerStepUse
from torchlint.semantic.data.processes import Processes
from torchlint.semantic.data.samples import Samples
from torchlint.semantic.device.elements import Elements
from torchlint.semantic.device.host_reads import HostRead, HostReads
from torchlint.semantic.device.round_trips import RoundTrip, round_trip
from torchlint.semantic.device.transfers import Transfer
from torchlint.semantic.places import Arguments, Places
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.project.project import Definition
from torchlint.semantic.time import compat
from torchlint.semantic.time.accumulators import Accumulator, accumulator, gathered
from torchlint.semantic.time.autograd import Autograd
from torchlint.semantic.time.heat import Grade, Heat, HeatMap, Why
from torchlint.semantic.time.iterations import Iterations
from torchlint.semantic.time.loops import LoopKind, Loops
from torchlint.semantic.time.pace import Pace
from torchlint.semantic.time.upkeep import Upkeep
from torchlint.semantic.values import observers
from torchlint.semantic.values import sites as sites_of
from torchlint.semantic.values.facts import Values
from torchlint.semantic.values.kernels import Kernels
from torchlint.semantic.values.value import ACCEL, CPU, CUDA, META, Value

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
    "RoundTrip",
    "Transfer",
    "Use",
    "Value",
    "Why",
    "dotted_text",
]

_TORCH = re.compile(r"^[^\S\n]*(import|from)\s+(torch|lightning|pytorch_lightning)", re.MULTILINE)
_MAIN = re.compile(r"^if\s+__name__\s*==\s*['\"]__main__['\"]", re.MULTILINE)
_OTHER = re.compile(r"^[^\S\n]*(import|from)\s+(mxnet|jax|tensorflow|paddle|mindspore)\b", re.MULTILINE)
_ACCEL = re.compile(r"cuda|\bdevice\b|\bgpus?\b|accelerat|\bmps\b|\.cpu\(\)|LightningModule|\bTrainer\b", re.IGNORECASE)
_MAX_SITES = 12
_ORIGIN_ON_DEVICE = ("model", "loss", "forward")


class Module(Pace, DataPath, Elements, Processes, Kernels, Upkeep, Frameworks, Samples, PerStepUse, Places):
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
        outside: Outside | None = None,
        python: ast.Module | None = None,
    ) -> None:
        super().__init__(root, filename, outside or Outside())
        self.text = text
        self.statements = Statements(root, text, python)
        self.target_torch = target_torch
        self.accelerator = accelerator
        self._values = Values(self.tree, self._names, self._scopes, self._flow, text)
        self._loops = Loops(self.tree, self._names, self._scopes, self._flow, self._values)
        self._iterations = Iterations(self.tree, self._names, self._flow, self._values)
        self._heat = HeatMap(
            self.tree, self._scopes, self._flow, self._guards, self._loops, assume_hot, self._takes_tensors
        )
        self._reads = HostReads(self)
        self._autograd = Autograd(self._scopes, self._flow)
        self._accel: bool | None = None
        self._facts: dict[object, bool] = {}

    def close(self) -> None:
        """Forget all answers: the parts know each other, and would wait for the garbage collector to be freed."""
        for part in (self._values, self._loops, self._heat, self._reads, self):
            vars(part).clear()

    # -- values -------------------------------------------------------------------------------------------------

    def definition(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return the expression that a plain name is assigned in its one and only binding, or None."""
        return self._iterations.definition(node)

    def version_guarded(self, node: cst.CSTNode) -> bool:
        """Say whether `node` is one branch of code for several versions of a library."""
        return compat.version_guarded(node, self.tree, self._guards, self._iterations)

    def value(self, node: cst.CSTNode) -> Value:
        """Return the abstract value of an expression, of an assigned target, or of an augmented assignment."""
        return self._values.value(node)

    def returned(self, function: cst.FunctionDef, given: Mapping[str, Value] | None = None) -> Value:
        """Return what calling a function of this file gives, with these values for its parameters."""
        return self._values.summary(function, 2, given)

    def batch_device(self, loader: Value) -> str | None:
        """Return where a loader's batches live, or None where a framework may move them."""
        return self._values.batch_device(loader)

    def behind(self, instance: Value) -> Sequence[Definition]:
        """Return the classes in other files of the project from which an instance's class inherits, or is itself."""
        return self._values.family(instance)

    def class_attribute(self, cls: cst.ClassDef, attr: str) -> Value:
        """Return what ``self.attr`` holds, gathered over the class."""
        return self._values.class_attribute(cls, attr, 2)

    def is_lightning(self, node: cst.CSTNode) -> bool:
        """Say whether `node` lies in a LightningModule."""
        return self._scopes.is_lightning(self._scopes.class_of(node))

    @property
    def accel(self) -> bool:
        """Whether the file (or the configuration) shows that the code runs on an accelerator."""
        if self._accel is None:
            if (_OTHER.search(self.text) and not _TORCH.search(self.text)) or self.trains_on_cpu:
                self._accel = False  # Another framework's arrays, or a Trainer for the CPU.
            elif self.accelerator == "auto":
                self._accel = bool(_ACCEL.search(self.text)) or any(
                    self._scopes.is_module(c) for c in self.nodes(cst.ClassDef) if isinstance(c, cst.ClassDef)
                )
            else:
                self._accel = self.accelerator != "cpu"
        return self._accel

    def on_device(self, node: cst.CSTNode) -> bool | None:
        """Say whether an expression is a tensor on the accelerator; None where unknown."""
        return self._lives(self.value(node))

    def on_device_from(self, node: cst.BaseExpression) -> cst.Call | None:
        """Return a hot call of the function around `node` that makes the expression a tensor on the accelerator."""
        function = self.function(node)
        sites = self.call_sites(function) if function is not None else []
        if function is None or len(sites) > _MAX_SITES or not self.accel:
            return None
        for site in sites:
            if self.heat(site).hot and not self.bench(site):
                value = sites_of.seen_from(self._values, node, function, site)
                if self._lives(value) or (value.kind == "accumulated" and value.device in (CUDA, ACCEL)):
                    return site
        return None

    def _lives(self, value: Value) -> bool | None:
        if value.host or not self.accel:
            return False
        if not value.tensor:
            return None
        if value.device in (CUDA, ACCEL):
            return True
        return True if value.device is None and value.origin in _ORIGIN_ON_DEVICE else None

    def scalar_reads(self, node: cst.CSTNode) -> Sequence[HostRead]:
        """Return the reads of a device scalar that a call, subscript, f-string or ``%`` format makes itself."""
        return self._reads.scalars(node)

    def host_copy(self, call: cst.Call) -> HostRead | None:
        """Return the copy of a device tensor to the host that a method call makes, or None."""
        return self._reads.copy(call)

    def round_trip(self, back: cst.Call) -> RoundTrip | None:
        """Return the trip to the host that ends in `back`, a call that brings host data to a device again."""
        return round_trip(self, back)

    def accumulator(self, step: cst.AugAssign) -> Accumulator | None:
        """Return the running sum that ``name += …`` feeds, where nothing sees it before its loop has ended."""
        return accumulator(self, step)

    def gathered(self, append: cst.Call) -> list[cst.Name] | None:
        """Return the reads of a list that one loop fills by this ``append``, where all come after the loop."""
        return gathered(self, append)

    def source(self, node: cst.CSTNode) -> str:
        """Return a statement, or the whole file, as it is written; decorators and comments above are left out."""
        if node is self.root:
            return self.text
        smalls = node.body if isinstance(node, cst.SimpleStatementLine) else (node,)
        places = [self.statements.span(small) for small in smalls]
        if None in places:
            return self.root.code_for_node(node)
        return "; ".join(self.text[place.start : place.end] for place in places if place is not None)

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

    def stays(self, call: cst.BaseExpression) -> bool:
        """Say whether a new object is only seen by its own function or script, which calls its methods."""
        name = imports.keeper(call, self._names, self._flow, self.tree)
        if name is None or observers.sees_itself(self):
            return False
        return self.tree.owners[call] is not self.tree.root or self.reached(name) is False

    def reached(self, name: str) -> bool | None:
        """Say whether code elsewhere may read or replace a top-level name of this file; None where that is not known.

        That is another file of the project, or this one where it looks itself up as a module or by a string.
        """
        return self.outside.reached(name, self.text, self.filename)

    def said(self, test: Callable[[str], bool], *, near: bool = False) -> bool:
        """Say whether a test holds, or may hold, for the text of this file or of another one of the project.

        `near` are those alone that hold the name of this file's module.
        """
        return self.once((test, near), lambda: test(self.text) or self.outside.others_say(test, near=near) is not False)

    def once(self, key: object, fact: Callable[[], bool]) -> bool:
        """Return a fact of the whole file, worked out when it is asked for the first time."""
        if key not in self._facts:
            self._facts[key] = fact()
        return self._facts[key]

    # -- file ---------------------------------------------------------------------------------------------------

    def mentions(self, pattern: re.Pattern[str] | Wording) -> bool:
        """Say whether a pattern is found anywhere in the file's text."""
        return self.once(pattern, lambda: pattern.search(self.text) is not None)

    @property
    def main_guard(self) -> bool:
        """Whether the file has ``if __name__ == "__main__":``."""
        return self.mentions(_MAIN)

    @property
    def framework(self) -> bool:
        """Whether a framework that moves batches or owns the loop is imported (Lightning, Accelerate, Ignite, …)."""
        return self._values.framework
