"""What an expression is, as abstract interpretation of the file finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.parameter_uses import incoming_device
from torchlint.semantic.values.value import Value

if TYPE_CHECKING:
    from torchlint.semantic.elsewhere import Definition


@question(yes="`{0}`: {answer}", no="`{0}`: {answer}", ground=True, remember=False)
def inferred(module: Module, node: cst.CSTNode) -> Value:
    """Return the abstract value of an expression, of an assigned target, or of an augmented
    assignment."""
    return values(module).value(node)


@question(ground=True, remember=False)
def returned_by(
    module: Module, function: cst.FunctionDef, given: Mapping[str, Value] | None = None
) -> Value:
    """Return what calling a function of this file gives, with these values for its parameters."""
    return values(module).summary(function, 2, given)


@question(ground=True, remember=False)
def home_of_parameters(module: Module, function: cst.FunctionDef) -> str | None:
    """Return where the tensors live that a function gets, where that is known by what it is: a
    model's method, a loss."""
    return incoming_device(values(module), function)


@question(ground=True, remember=False)
def batch_device(module: Module, loader: Value) -> str | None:
    """Return where a loader's batches live, or None where a framework may move them."""
    return values(module).batch_device(loader)


@question(ground=True, remember=False)
def classes_of_instance(module: Module, instance: Value) -> Sequence[Definition]:
    """Return the classes in other files of the project from which an instance's class inherits, or
    is itself."""
    return values(module).family(instance)


@question(
    yes="the class keeps {answer} there",
    no="what the class keeps there is not known",
    ground=True,
    remember=False,
)
def class_attribute(module: Module, cls: cst.ClassDef, attr: str) -> Value:
    """Return what ``self.attr`` holds, gathered over the class."""
    return values(module).class_attribute(cls, attr, 2)


@question(yes="`{0}` runs a model", no="`{0}` is not known to run a model", ground=True)
def is_model_call(module: Module, call: cst.Call) -> bool:
    """Say whether a call runs a model (not a loss)."""
    return values(module).is_model_call(call)


@question(yes="`{0}` is a loader", no="`{0}` is not known to be a loader", ground=True)
def is_loader(module: Module, node: cst.CSTNode) -> bool:
    """Say whether iterating over an expression goes through a loader's batches."""
    return values(module).loader_of(node)


@question(
    yes=(
        "a framework that moves batches or owns the loop is imported (Lightning, Accelerate, "
        "Ignite, …)"
    ),
    no="no framework that moves batches is imported",
    ground=True,
    remember=False,
)
def framework_moves_batches(module: Module) -> bool:
    """Whether a framework that moves batches or owns the loop is imported (Lightning, Accelerate,
    Ignite, …)."""
    return values(module).framework
