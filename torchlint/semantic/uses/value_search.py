"""Following a value to all that becomes of it: through names, displays, unpacking, loops and
arguments.

What a use means is the question's to say: a subclass says what it makes of an attribute, a call, an
operation, and of a use that is not known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import libcst as cst

from torchlint.semantic.code.bindings import names_of_outer_scopes
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.module import Module


class ValueSearch(ABC):
    """One search for what becomes of a value."""

    def __init__(self, module: Module, budget: int) -> None:
        self.module = module
        self._left = budget
        self._seen: set[tuple[object, ...]] = set()

    @abstractmethod
    def value(self, node: cst.CSTNode) -> None:
        """Follow the value of an expression."""

    @abstractmethod
    def unknown(self, node: cst.CSTNode, definition: cst.CSTNode | None = None) -> None:
        """Note a use that is not known, by what a definition has bound."""

    @abstractmethod
    def attribute(self, node: cst.Attribute) -> None:
        """Follow the value into an attribute of it, or a method."""

    @abstractmethod
    def argument(self, call: cst.Call, arg: cst.Arg) -> None:
        """Follow the value into a call that it is given to."""

    @abstractmethod
    def used(self, node: cst.CSTNode, above: cst.CSTNode) -> None:
        """Follow the value into anything else that stands around it."""

    def read(self, read: cst.Name, definition: cst.CSTNode) -> None:
        """Follow what a definition has bound from where it is read."""
        self.value(read)

    def known(self, *place: object) -> bool:
        """Say whether a place has been looked at before, and note it."""
        known = place in self._seen
        self._seen.add(place)
        return known

    def around(self, node: cst.CSTNode) -> None:
        """Follow the value of an expression by what stands around it."""
        self._left -= 1
        above = self.module.parent(node)
        if above is None or self._left < 0:
            self.unknown(node)
            return
        match above:
            case cst.Expr() | cst.Del():
                return
            case cst.Assign(targets):
                for each in targets:
                    self.bound(each.target, above)
            case (
                cst.AnnAssign(target, value=value)
                | cst.For(target, value)
                | cst.CompFor(target, value)
            ) if value is node:
                self.bound(target, above)
            case cst.NamedExpr(target):
                self.bound(target, above)
                self.value(above)
            case cst.Attribute(value) if value is node:
                self.attribute(above)
            case cst.Arg():
                call = self.module.parent(above)
                if isinstance(call, cst.Call):
                    self.argument(call, above)
                else:
                    self.unknown(above)
            case cst.Element():
                self._element(above)
            case _:
                self.used(node, above)

    def _element(self, element: cst.Element) -> None:
        """Follow an element of a display; of ``a, b = f(x), g(x)`` to its own name."""
        holder = self.module.tree.parents[element]
        assign = self.module.parent(holder)
        elements = holder.elements if isinstance(holder, (cst.Tuple, cst.List)) else ()
        # A set has no order.
        plain = elements and all(isinstance(each, cst.Element) for each in elements)
        if isinstance(assign, cst.Assign) and plain:
            place = next(i for i, each in enumerate(elements) if each is element)
            for each in assign.targets:
                self.part(each.target, place, len(elements), assign)
        else:
            self.value(holder)

    def part(self, target: cst.CSTNode, place: int, count: int, definition: cst.CSTNode) -> None:
        """Follow one of several values into a target."""
        if (
            isinstance(target, (cst.Tuple, cst.List))
            and len(target.elements) == count
            and not any(isinstance(each, cst.StarredElement) for each in target.elements)
        ):
            target = target.elements[place].value
        self.bound(target, definition)

    def zipped(self, call: cst.Call, arg: cst.Arg) -> None:
        """Follow the elements of what ``zip`` or ``enumerate`` is given."""
        loop, places = self.module.parent(call), [each for each in call.args if not each.keyword]
        if self.module.name(call.func) == "builtins.enumerate":
            places = [call.args[0], arg]
        if isinstance(loop, (cst.For, cst.CompFor)) and not arg.star:
            place = max(i for i, each in enumerate(places) if each is arg)
            self.part(loop.target, place, len(places), loop)
        else:
            self.value(call)

    def bound(self, target: cst.CSTNode, definition: cst.CSTNode) -> None:
        """Follow what a target binds."""
        if isinstance(definition, cst.CompFor):
            above = self.module.ancestors(definition)
            holder = next(each for each in above if not isinstance(each, cst.CompFor))
            for name in self.module.within(target, cst.Name):
                for read in reads_of(self.module, holder, name.value):
                    if read is not name and not self.module.is_within(read, definition.iter):
                        self.read(read, definition)
        elif isinstance(target, cst.Name):
            self.name(definition, target.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self.bound(element.value, definition)
        else:
            self.unknown(target, definition)

    def name(self, definition: cst.CSTNode, name: str) -> None:
        """Follow the reads that may find what a definition binds to a name."""
        if self.known(definition, name):
            return
        if any(name in names for names in names_of_outer_scopes(self.module)):
            self.unknown(definition, definition)
            return
        for read in readers_of(self.module, definition, name):
            if (read,) not in self._seen:
                self.read(read, definition)


def parameter_of(
    module: Module, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg
) -> str | None:
    """Return the parameter of a function that an argument of its call is bound to; None where that
    is not one, or where the function yields."""
    passed = module.bind(function, call)
    names = [name for name, value in passed.items() if value is arg.value]
    yields = module.contains(function, cst.Yield)
    return names[0] if len(names) == 1 and not (arg.star or yields) else None
