"""Tests that hold only where a program runs without a GPU of NVIDIA's, and what runs by them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import Condition, certain, conditions
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.tree import components, is_name, last_small, method_called, root_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import MOVES

_DEVICE = regex(
    r"^((self|args?|opts?|cfg|config|hparams)\.)?\w*device(_type)?(\.type)?$", re.IGNORECASE
)
"""The device of a program, not of a tensor."""
_GPU_FLAG = regex(r"^_?((use|is|on|with|has)_)?(cuda|gpu)(_available)?$", re.IGNORECASE)
_ON_CPU = regex(r"(^|_)((force|use|only|on)_cpu|cpu_only)(_|$)")
"""A flag by which somebody has the CPU compute."""
_MISSING = ("ImportError", "ModuleNotFoundError")
_APPLE = ("torch.backends.mps.is_available", "torch.mps.is_available")
_NVIDIA = ("torch.cuda.is_available",)


class OffTheGpu:
    """Says of the tests in one file whether they hold without a GPU only."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.names = module.names

    def says(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test holds only where the program runs on the CPU or on Apple's GPU:
        ``device.type == "mps"``, ``not torch.cuda.is_available()``, ``not parameters[0].is_cuda``,
        ``force_cpu``.
        """
        match test:
            case cst.Call(func):
                return self.names.name(func) in (_APPLE if needed else _NVIDIA)
            case cst.Attribute(attr=cst.Name("is_mps")):
                return needed
            case cst.Name(word) if _ON_CPU.search(word):
                return needed
            case cst.Attribute(asked, cst.Name("is_cuda" | "is_cpu" as word)):
                return needed is (word == "is_cpu") and self._stands_for_all(asked)
            case cst.Comparison(
                left,
                [cst.ComparisonTarget(operator, right)],
            ):
                types = frozenset(
                    str(each.raw_value)
                    for each in components(right, cst.Tuple, cst.List, cst.Set)
                    if isinstance(each, cst.SimpleString)
                )
                if isinstance(operator, (cst.NotEqual, cst.NotIn)):
                    needed = not needed
                elif not isinstance(operator, (cst.Equal, cst.In)):
                    return False
                ours = _DEVICE.search(dotted_text(left) or "") is not None
                ours = ours or self._stands_for_all(left)
                if not needed:
                    return ours and "cuda" in types
                # A tensor on the CPU may be about to be moved.
                return bool(types) and types <= ({"cpu", "mps"} if ours else {"mps"})
        return False

    def falls_back(self, at: Condition, around: Sequence[Condition]) -> bool:
        """Say whether what a condition leaves is the fallback from a kernel that needs a GPU and a
        package: ``if HAS_TRITON and x.is_cuda: return kernel(x)``. What else that test asks has to
        be so by a condition around."""
        if at.needed or not isinstance(at.test, cst.BooleanOperation):
            return False
        left = [
            part
            for part in components(at.test, cst.And)
            if not self._has_package(part)
            and not any(each.needed and each.test.deep_equals(part) for each in around)
        ]
        return len(left) == 1 and certain(left[0], False, self.says)

    def _has_package(self, test: cst.BaseExpression) -> bool:
        """Say whether a test asks whether a package is there, by what a failed import sets."""
        match test:
            case cst.Comparison(flag, [cst.ComparisonTarget(cst.IsNot(), cst.Name("None"))]):
                pass
            case flag:
                pass
        if not isinstance(flag, cst.Name):
            return False
        _, found = self.names.bindings(flag.value, flag)
        handlers = (
            above
            for each in found
            for above in self.tree.ancestors(each.node)
            if isinstance(above, cst.ExceptHandler) and above.type is not None
        )
        return any(last_part(each.type) in _MISSING for each in handlers)

    def _stands_for_all(self, node: cst.BaseExpression) -> bool:
        """Say whether a tensor, or its device, is the first of several and asked for all of them,
        ``parameters[0]``, ``next(model.parameters())``, in a function that moves none, or is an
        argument that its function returns early with, and moves to no GPU."""
        while isinstance(node, cst.Attribute) and node.attr.value in ("device", "type"):
            node = node.value
        match node:
            case cst.Name(name):
                return self._is_kept_argument(node, name)
            case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer()))]):
                pass
            case cst.Call(func) if self.names.name(func) == "builtins.next":
                pass
            case _:
                return False
        home = self.tree.function(node)
        return home is not None and not any(
            method_called(call) in MOVES for call in self.tree.within(home, cst.Call)
        )

    def _is_kept_argument(self, node: cst.Name, name: str) -> bool:
        """Say whether a tensor is an argument by which its function returns early, and that neither
        it moves to a GPU, nor another function that gives it back."""
        home = self.tree.function(node)
        holder = next((a for a in self.tree.ancestors(node) if isinstance(a, cst.If)), None)
        if home is None or holder is None or not self.tree.is_within(node, holder.test):
            return False
        _, found = self.names.bindings(name, node)
        bound = [each for each in found if each.kind != "param"]
        return (
            isinstance(last_small(holder.body), cst.Return)
            and len(bound) < len(found)
            and all(each.value is not None and is_name(root_of(each.value), name) for each in bound)
            and not any(
                method_called(call) == "cuda"
                or (method_called(call) == "to" and is_name(root_of(call), name))
                for call in self.tree.within(home, cst.Call)
            )
        )


@question(
    yes="`{0}` holds wherever a GPU is used",
    no="`{0}` is not known to hold wherever a GPU is used",
    ground=True,
)
def on_gpu(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether a test holds wherever a GPU is used: it asks whether there is one, or for a flag
    of that name, ``torch.cuda.is_available() and args.use_cuda``."""
    says = OffTheGpu(module).says
    return all(
        says(part, False) or _GPU_FLAG.search(_flag(part)) is not None
        for part in components(test, cst.And)
    )


def _flag(test: cst.BaseExpression) -> str:
    """Return the last name that a test asks for, also by ``getattr(args, "cuda", False)``."""
    match test:
        case cst.Call(cst.Name("getattr"), [_, cst.Arg(cst.SimpleString() as text), *_]):
            return str(text.raw_value)
    return last_part(test)


@question(
    yes="`{answer}` holds only without a GPU",
    no="no condition says that there is no GPU",
    ground=True,
)
def off_the_gpu(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition by which a node runs only on the CPU, or on Apple's GPU."""
    off = OffTheGpu(module)
    around = list(conditions(module).around(node, None))
    return next(
        (
            each.test
            for each in around
            if certain(each.test, each.needed, off.says) or off.falls_back(each, around)
        ),
        None,
    )
