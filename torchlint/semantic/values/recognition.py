"""What part a value or a function plays: a loader, a model's call, a batch, a stub. A part of
`Values`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import libcst as cst

from torchlint.semantic.code.flow import Flow
from torchlint.semantic.code.names import Names, dotted_text, last_part
from torchlint.semantic.torch.spelling import CRITERION, MODEL, called
from torchlint.semantic.values.value import CPU, Value

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

_NO_MODELS = ("builtins.", "torch.", "numpy.", "math.", "os.", "re.", "time.")


class Recognition:
    """The part of `Values` that judges values by the part they play."""

    names: Names
    flow: Flow
    framework: bool

    @property
    def _values(self) -> Values:
        return cast("Values", self)

    def batch_device(self, loader: Value) -> str | None:
        """Return where a loader's batches live: on the CPU, unless a framework may move them."""
        if loader.device is not None:
            return loader.device
        return CPU if loader.node is not None and not self.framework else None

    def is_abstract(self, function: cst.CSTNode) -> bool:
        """Say whether a function's body does nothing (pass, docstring, raise
        NotImplementedError)."""
        if not isinstance(function, cst.FunctionDef) or not isinstance(
            function.body, cst.IndentedBlock
        ):
            return False
        for line in function.body.body:
            if not isinstance(line, cst.SimpleStatementLine):
                return False
            for small in line.body:
                if isinstance(small, cst.Raise):
                    return True
                plain = isinstance(small, cst.Pass) or (
                    isinstance(small, cst.Expr) and not isinstance(small.value, cst.Call)
                )
                if not plain:
                    return False
        return True

    def is_submodule(self, module: Value, attr: str) -> bool:
        """Say whether ``module.attr`` is a module itself: by its class in this file, or by its
        name."""
        if isinstance(module.node, cst.ClassDef):
            return self._values.class_attribute(module.node, attr, 1).kind == "module"
        return called(attr, MODEL)

    def loader_of(self, node: cst.CSTNode) -> bool:
        """Say whether iterating over an expression goes through a data loader's batches."""
        value = self._values.value(node)
        return value.kind == "loader" or value.name == "loader"

    def is_model_call(self, call: cst.Call) -> bool:
        """Say whether a call runs a model: a module that is not a loss, or a method of one that
        runs it."""
        func = call.func
        if isinstance(func, cst.Attribute) and (
            func.attr.value in ("forward", "generate", "predict_on_batch")
            or func.attr.value.startswith("forward_")
        ):
            return (
                self._values.value(func.value).kind in ("module", "?")
                and dotted_text(func.value) is not None
            )
        if self.flow.callees(call) or (self.names.name(func) or "").startswith(_NO_MODELS):
            return False  # Known without the values of the function around it.
        if (
            isinstance(func, cst.Attribute)
            and self.names.name(func) is None
            and self._values.value(func.value).kind == "tensor"
        ):
            return False
        callee = self._values.value(func)
        if callee.kind == "function" and callee.node is None and isinstance(func, cst.Attribute):
            # A method of a class in another file: ``net.encoder(x)``.
            return bool(call.args) and called(func.attr.value, MODEL)
        return (
            callee.kind == "module"
            and callee.name != "loss"
            and not (callee.name or "").endswith("Loss")
            and not called(last_part(func), CRITERION)
        )
