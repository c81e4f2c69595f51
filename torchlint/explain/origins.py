"""Where a value came from, link by link, and why of some nothing is known."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.base.finding import Reason
from torchlint.explain.line import Spots
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.imports import import_of
from torchlint.semantic.code.reaching import assigned_to, definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.place import named_device
from torchlint.semantic.values.value import Value

_LINKS = 5
_MOVES = ops.having("move")
_ROWS = 4


class Origins:
    """Follows values back to where they are made."""

    def __init__(self, module: Module, spots: Spots, filename: str) -> None:
        self.module = module
        self.spots = spots
        self.filename = filename

    def chain(self, node: cst.CSTNode) -> tuple[Reason, ...]:
        """Return where a value came from: assignments, loops, parameters and the calls that move or
        make it."""
        links: list[Reason] = []
        seen: set[cst.CSTNode] = set()
        at: cst.CSTNode | None = node
        while at is not None and at not in seen and len(links) < _LINKS:
            seen.add(at)
            words, place, after = self._step(at)
            row = self.spots.row(place) if place is not None else 0
            if words:
                links.append(Reason(words, self.filename, row))
            at = after
        return tuple(links)

    # -- one step back -----------------------------------------------------------------------------

    def _step(self, node: cst.CSTNode) -> tuple[str, cst.CSTNode | None, cst.CSTNode | None]:
        """Return the words for one step back, the place they speak of, and where to go on."""
        match node:
            case cst.Name():
                return self._of_name(node)
            case cst.Attribute(cst.Name("self")):
                made = assigned_to(self.module, node)
                if len(made) == 1:
                    return (
                        f"`{self.module.shown(node)}` = `{self.module.shown(made[0])}`",
                        made[0],
                        self._next_in_chain(made[0]),
                    )
                return "", None, None
            case cst.Attribute(inner) | cst.Subscript(inner):
                return "", None, inner
            case cst.Call():
                return self._of_call(node)
            case cst.BinaryOperation(left, right=right):
                return "", None, self._like(node, (left, right))
            case cst.UnaryOperation(expression=inner):
                return "", None, inner
            case cst.Comparison(left, others):
                return "", None, self._like(node, (left, *(other.comparator for other in others)))
        return "", None, None

    def _of_name(self, node: cst.Name) -> tuple[str, cst.CSTNode | None, cst.CSTNode | None]:
        definitions = self._definitions(node)
        if len(definitions) != 1:
            lines = self._lines(definitions)
            return (
                f"`{node.value}` is bound in several places: {lines}" if lines else "",
                definitions[0] if definitions else None,
                None,
            )
        found = definitions[0]
        match found:
            case cst.Assign(value=value) | cst.AnnAssign(value=cst.BaseExpression() as value):
                part = self._unpacked_part(found, node, value)
                return (
                    f"`{node.value}` = `{self.module.shown(part)}`",
                    found,
                    self._next_in_chain(part),
                )
            case cst.AugAssign(value=value):
                return f"`{node.value}` grows by `{self.module.shown(value)}`", found, value
            case cst.For(iter=iterated):
                return (
                    f"`{node.value}` comes from the loop over `{self.module.shown(iterated)}`",
                    found,
                    iterated,
                )
            case cst.FunctionDef(name=cst.Name(name)):
                return (
                    f"`{node.value}` is a parameter of {name}()",
                    found,
                    self._argument(found, node.value),
                )
        return "", None, None

    def _definitions(self, node: cst.Name) -> Sequence[cst.CSTNode]:
        statement = self.module.small_statement(node)
        if statement is not None and is_bound(self.module, node):
            return [statement]
        loop = self.module.statement(node)
        if isinstance(loop, cst.For) and self.module.is_within(node, loop.target):
            return [loop]
        return definitions_of(self.module, node)

    def _unpacked_part(
        self, assign: cst.CSTNode, name: cst.Name, value: cst.BaseExpression
    ) -> cst.CSTNode:
        """Return the part of an unpacked tuple that a name gets: ``x, y = x.to(device),
        y.to(device)``."""
        match assign, value:
            case cst.Assign([cst.AssignTarget(cst.Tuple(left))]), cst.Tuple(right):
                for one, other in zip(left, right, strict=False):
                    if is_name(one.value, name.value):
                        return other.value
        return value

    def _argument(self, function: cst.FunctionDef, name: str) -> cst.CSTNode | None:
        sites = call_sites(self.module, function)
        if len(sites) != 1:
            return None
        given = keyword_argument(self.module, sites[0], name)
        params = [param.name.value for param in function.params.params]
        if given is None and name in params:
            place = params.index(name) - (params[0] in ("self", "cls"))
            plain = [arg.value for arg in sites[0].args if arg.keyword is None and not arg.star]
            given = plain[place] if 0 <= place < len(plain) else None
        return given

    def _of_call(self, call: cst.Call) -> tuple[str, cst.CSTNode | None, cst.CSTNode | None]:
        func, module = call.func, self.module
        if is_model_call(module, call):
            return f"`{module.shown(func)}` runs a model", call, func
        if isinstance(func, cst.Attribute) and module.name(func) is None:
            if self._moves(call):
                return f"`{module.shown(call)}` puts it there", call, self._target_of(call)
            return "", None, func.value
        return "", None, self._like(call, [arg.value for arg in call.args])

    def _moves(self, call: cst.Call) -> bool:
        """Say whether a method call changes where a value lives."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _MOVES:
            return False
        return inferred(self.module, call).device != inferred(self.module, func.value).device

    def _next_in_chain(self, made: cst.CSTNode) -> cst.CSTNode | None:
        """Return where to go on behind an assignment's right side, which has been told."""
        if isinstance(made, cst.Call) and self._moves(made):
            return self._target_of(made)
        return made

    def _target_of(self, move: cst.Call) -> cst.CSTNode | None:
        """Return the name of the device that a value is moved to."""
        first = move.args[0].value if move.args else None
        return first if isinstance(first, (cst.Name, cst.Attribute)) else None

    def _like(self, node: cst.CSTNode, parts: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        """Return the part that a tensor takes its device from."""
        value = inferred(self.module, node)
        if value.kind not in ("tensor", "batch", "accumulated", "tuple"):
            return None
        tensors = [
            part
            for part in parts
            if inferred(self.module, part).kind in ("tensor", "batch", "accumulated")
        ]
        same = [part for part in tensors if inferred(self.module, part).device == value.device]
        return next(iter(same or tensors), None)

    # -- what is not known -------------------------------------------------------------------------

    def unknown(self, node: cst.CSTNode, value: Value) -> str:
        """Return what is not known of a value and why."""
        if value.origin == "batch":
            return "it comes out of a loader, and nothing moves it to a device before this line"
        seen: set[cst.CSTNode] = set()
        at: cst.CSTNode | None = node
        while at is not None and at not in seen:
            seen.add(at)
            words, at = self._missing(at)
            if words:
                return words
        return ""

    def _missing(self, node: cst.CSTNode) -> tuple[str, cst.CSTNode | None]:
        """Return what is missing at an expression, or else where to look on."""
        match node:
            case cst.Name():
                return self._unknown_name(node)
            case cst.Call():
                return self._unknown_call(node)
            case cst.Attribute(cst.Name("self"), cst.Name(attr)):
                made = assigned_to(self.module, node)
                if not made:
                    return f"nothing in this class assigns `self.{attr}`", None
                if len(made) > 1:
                    return (
                        f"`self.{attr}` is assigned in several places ({self._lines(made)})",
                        None,
                    )
                return "", made[0]
        return "", self._step(node)[2]

    def _unknown_call(self, call: cst.Call) -> tuple[str, cst.CSTNode | None]:
        func, module = call.func, self.module
        device = keyword_argument(module, call, "device")
        if device is not None and named_device(module, device) is None:
            return f"it is not known which device `{module.shown(device)}` is", None
        method = (
            isinstance(func, cst.Attribute)
            and module.name(func) is None
            and not callees_of(module, call)
        )
        if (
            isinstance(func, cst.Attribute)
            and method
            and inferred(module, func.value).kind == "?"
            and not is_name(func.value, "self", "cls")
        ):
            return "", func.value
        if inferred(module, call).tensor:
            return "", self._step(call)[2]
        name = module.name(func)
        if callees_of(module, call):
            return f"`{module.shown(func, 40)}()` returns different or unknown things", None
        if name is not None and not name.startswith(("torch.", "builtins.")):
            return (
                (
                    f"what `{name}()` returns is not known: its code is not in this project, or "
                    "says "
                    "too little"
                ),
                None,
            )
        return f"what `{module.shown(func, 40)}()` returns is not known", None

    def _unknown_name(self, node: cst.Name) -> tuple[str, cst.CSTNode | None]:
        name, module = node.value, self.module
        if import_of(module, node) is not None:
            return (
                f"`{name}` is imported, and its code is not in this project or says too little",
                None,
            )
        definitions = self._definitions(node)
        if len(definitions) > 1:
            return (
                (
                    f"`{name}` has several origins ({self._lines(definitions)}) that differ or are "
                    "unknown"
                ),
                None,
            )
        if not definitions:
            return f"nothing that binds `{name}` is seen", None
        found = definitions[0]
        if isinstance(found, cst.FunctionDef):
            return self._unknown_parameter(found, name), None
        if isinstance(found, cst.For):
            return f"what the loop over `{module.shown(found.iter)}` gives is not known", None
        made = found.value if isinstance(found, (cst.Assign, cst.AnnAssign)) else None
        if made is not None:  # What it is, not the device to which a move brings it.
            return "", self._unpacked_part(found, node, made)
        return "", self._of_name(node)[2]

    def _unknown_parameter(self, function: cst.FunctionDef, name: str) -> str:
        sites = call_sites(self.module, function)
        whose = f"`{name}` is a parameter of {function.name.value}()"
        if not sites:
            return (
                f"{whose}, which nothing in this file calls; its annotation and its uses do "
                "not tell"
            )
        return f"{whose}, and what its callers pass ({self._lines(sites)}) differs or is unknown"

    def _lines(self, nodes: Sequence[cst.CSTNode]) -> str:
        return self.spots.lines(*sorted(nodes, key=self.spots.row), most=_ROWS)


def is_bound(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an assignment gives a value to a name or an element, alone or in a tuple: not
    whether it stands in ``x[i] = …``, which reads ``x``."""
    above = module.parent(node)
    while isinstance(above, (cst.Element, cst.Tuple, cst.List, cst.StarredElement)):
        above = module.parent(above)
    return isinstance(above, cst.AssignTarget)
