"""Which assignments of a plain name a read may see, and which reads see an assignment.

The answer follows the blocks of one function: an ``if`` may or may not bind, a loop's body may have
run before, to its end where nothing leaves it earlier, and of a ``try`` any part. What is bound by
anything but a plain assignment (a parameter, a loop, ``with … as``) is told by the node that binds
it.
"""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.conditions import always_leaves
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

Definitions = dict[cst.CSTNode, None]
"""The binding nodes, in the order in which they were met."""

_SPLIT = "torch.utils.data.random_split"


class Reaching:
    """Reaching definitions of the plain names of one file."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.names = module.names
        self.flow = flow(module)
        self._memory: dict[cst.Name, Definitions] = {}
        self._reads: dict[tuple[cst.CSTNode, str], dict[cst.CSTNode, dict[cst.Name, int]]] = {}
        self._parameters: dict[cst.CSTNode, frozenset[str]] | None = None
        self._jumped: frozenset[cst.CSTNode | None] | None = None

    def definitions(self, read: cst.Name) -> list[cst.CSTNode]:
        """Return the nodes that may have bound what a read of a name (or ``x += …``) finds.

        An assignment is told by its small statement (`cst.Assign`, `cst.AnnAssign`,
        `cst.AugAssign`), a parameter by its function, everything else by the statement that binds
        it.
        """
        if read not in self._memory:
            found: Definitions = {}
            scope, bindings = self.names.bindings(read.value, read)
            # What lies between a read and its statement binds nothing that it could find.
            start = self.tree.small_statement(read) or read
            owner = self.tree.owners[read]
            home = (
                owner
                if isinstance(owner, cst.Lambda)
                else next(
                    (above for above in self.tree.ancestors(start) if isinstance(above, FUNCTIONS)),
                    self.tree.root,
                )
            )
            if not isinstance(scope, (cst.FunctionDef, cst.Module)) or home is not scope:
                # Read in an inner function, or bound by a comprehension: any of the bindings.
                found.update(dict.fromkeys(b.node for b in bindings))
            else:
                self._climb(start, read.value, found)
            found.update(dict.fromkeys(self.names.imported_over(read.value, read)))
            self._memory[read] = found
        return list(self._memory[read])

    def reads(self, definition: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the reads that may see what `definition` binds to `name`; the target of ``x += …``
        is one."""
        scope = self.names.scope(definition)
        if (scope, name) not in self._reads:
            found = self._reads[scope, name] = {}
            for place, node in enumerate(self.flow.names_in(scope, name)):
                if not self.flow.is_write(node) or isinstance(
                    self.tree.parents.get(node), cst.AugAssign
                ):
                    for each in self.definitions(node):
                        found.setdefault(each, {})[node] = place
        by_definition = self._reads[scope, name]
        told = [by_definition[each] for each in self._told_by(definition) if each in by_definition]
        if len(told) < 2:
            return [*told[0]] if told else []
        places = {node: place for each in told for node, place in each.items()}
        return sorted(places, key=places.__getitem__)

    def _told_by(self, definition: cst.CSTNode) -> set[cst.CSTNode]:
        """Return the nodes that a binding may be told by: of ``(x := …)``, the statement that it
        stands in, or the header of one."""
        told = {definition}
        if isinstance(definition, cst.NamedExpr):
            for above in self.tree.ancestors(definition):
                if isinstance(above, FUNCTIONS):
                    break
                told.add(above)
        return told

    def _climb(self, node: cst.CSTNode, name: str, found: Definitions) -> None:
        """Collect what may be bound before `node` runs, going up to the function or module."""
        while True:
            above = self.tree.parents.get(node)
            if above is None:
                return
            if isinstance(above, FUNCTIONS):
                found.update({above: None} if name in self._params(above) else {})
                return
            if isinstance(above, (cst.BaseSuite, cst.SimpleStatementLine, cst.Module)):
                if self.flow.writes(above, name):
                    parts = list(above.body)
                    if any(
                        self._bound_by(part, name, found)
                        for part in reversed(parts[: parts.index(node)])
                    ):
                        return
            elif self._bound_around(above, node, name, found):
                return
            node = above

    def _params(self, function: cst.CSTNode) -> frozenset[str]:
        if self._parameters is None:
            names: dict[cst.CSTNode, set[str]] = {}
            for param in self.tree.nodes(cst.Param):
                names.setdefault(self.tree.owners[param], set()).add(param.name.value)
            self._parameters = {owner: frozenset(each) for owner, each in names.items()}
        return self._parameters.get(function, frozenset())

    def _bound_around(
        self, above: cst.CSTNode, node: cst.CSTNode, name: str, found: Definitions
    ) -> bool:
        """Collect what a compound statement around `node` may bind before it; say whether nothing
        earlier counts."""
        if isinstance(above, LOOPS):
            if (
                isinstance(above, cst.For)
                and node is above.body
                and self._binds(above.target, name)
            ):
                found[above] = None
                return True
            if not (isinstance(above, cst.For) and node is above.iter):
                self._all_writes(above.body, name, found)
        elif isinstance(above, cst.With) and node is above.body:
            if any(
                item.asname is not None and self._binds(item.asname, name) for item in above.items
            ):
                found[above] = None
                return True
        elif isinstance(above, (cst.Try, cst.TryStar)) and node is not above.body:
            self._all_writes(above.body, name, found)
        return False

    def _binds(self, target: cst.CSTNode, name: str) -> bool:
        return bool(self.flow.writes(target, name))

    def _all_writes(self, node: cst.CSTNode, name: str, found: Definitions) -> None:
        for write in self.flow.writes(node, name):
            found[self.tree.small_statement(write) or self.tree.statement(write)] = None

    def _bound_by(self, part: cst.CSTNode, name: str, found: Definitions) -> bool:
        """Collect what may be bound when `part` has run; say whether it binds the name whatever
        happens."""
        if not self.flow.writes(part, name):
            return False
        if isinstance(part, cst.BaseSmallStatement):
            found[part] = None
            return True
        if isinstance(part, (cst.SimpleStatementLine, cst.BaseSuite)):
            if part.body and always_leaves(part):
                return True
            return any(self._bound_by(p, name, found) for p in reversed(part.body))
        if isinstance(part, cst.If):
            first = self._bound_by(part.body, name, found) or always_leaves(part.body)
            other = part.orelse.body if isinstance(part.orelse, cst.Else) else part.orelse
            second = other is not None and (
                self._bound_by(other, name, found) or always_leaves(other)
            )
            return first and second
        if isinstance(part, cst.With) and not any(
            i.asname and self._binds(i.asname, name) for i in part.items
        ):
            return self._bound_by(part.body, name, found)
        if isinstance(part, LOOPS) and part.orelse is None and not self._is_jumped_in(part):
            self._bound_by(part.body, name, found)
            part = part.target if isinstance(part, cst.For) else part.test
        self._all_writes(part, name, found)
        return False

    def _is_jumped_in(self, loop: cst.CSTNode) -> bool:
        """Say whether an iteration of a loop may end elsewhere than at the end of its body."""
        if self._jumped is None:
            jumps = self.tree.nodes(cst.Break, cst.Continue)
            self._jumped = frozenset(
                next((each for each in self.tree.ancestors(jump) if isinstance(each, LOOPS)), None)
                for jump in jumps
            )
        return loop in self._jumped


@question(ground=True)
def reaching(module: Module) -> Reaching:
    """Return which bindings reach which reads."""
    return Reaching(module)


@question(
    yes="it is known what binds the name",
    no="it is not known what binds the name",
    ground=True,
    remember=False,
)
def definitions_of(module: Module, read: cst.Name) -> list[cst.CSTNode]:
    """Return the nodes that may have bound what a read of a name finds: assignments, a parameter's
    function, …"""
    return reaching(module).definitions(read)


@question(yes="the value is read", no="nothing reads the value", ground=True, remember=False)
def readers_of(module: Module, definition: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the reads that may find what an assignment binds to `name`; the target of ``x += …``
    is one."""
    return reaching(module).reads(definition, name)


@question(
    yes="what its last iteration leaves behind is read later",
    no="nothing reads what its last iteration leaves behind",
    ground=True,
    remember=False,
)
def read_after(module: Module, loop: cst.CSTNode, name: str) -> bool:
    """Say whether a name that a loop binds may be read outside of it, with what its last iteration
    bound: also by a closure, or a function that shares the name, and by ``del``."""
    names = flow(module)
    for read in names.names_in(module.root, name):
        deleted = isinstance(module.small_statement(read), cst.Del)
        if module.is_within(read, loop) or (names.is_write(read) and not deleted):
            continue
        made = definitions_of(module, read)
        if any(each is loop or module.is_within(each, loop) for each in made):
            return True
    return False


@question(ground=True, remember=False)
def assigned_value(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the value of the one assignment that a read of a name finds; None where it may find
    others, or is no name."""
    made = assignments_of(module, node)
    return made[0].value if len(made) == 1 else None


@question(ground=True, remember=False)
def assignments_of(module: Module, node: cst.CSTNode) -> list[cst.Assign]:
    """Return the assignments that a read of a name may find; none where it may find anything else,
    or where it is no name."""
    made = definitions_of(module, node) if isinstance(node, cst.Name) else []
    found = [each for each in made if isinstance(each, cst.Assign)]
    return found if len(found) == len(made) else []


@question(ground=True, remember=False)
def assigned_values(module: Module, read: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return what assignments may have bound to a name; nothing where something else may have."""
    return [each.value for each in assignments_of(module, read)]


@question(yes="it is assigned", no="nothing in the function or class assigns it")
def assigned_to(module: Module, place: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what a function assigns to a plain name, or a class to an attribute of ``self``."""
    scope: cst.CSTNode = module.scope(place)
    if isinstance(place, cst.Attribute):
        scope = module.class_of(place) or scope
    elif not isinstance(place, cst.Name):
        return []
    out = []
    for assign in module.within(scope, cst.Assign, nested=True):
        if any(target.target.deep_equals(place) for target in assign.targets):
            out.append(assign.value)
        elif isinstance(assign.value, cst.Tuple):
            out += _of_tuple(assign, assign.value, place)
        elif isinstance(assign.value, cst.Call) and module.name(assign.value.func) == _SPLIT:
            # ``train, rest = random_split(whole, sizes)``: each part is like the whole.
            parts = [
                e.value
                for t in assign.targets
                if isinstance(t.target, cst.Tuple)
                for e in t.target.elements
            ]
            whole = assign.value.args[0].value if assign.value.args else place
            out.extend(
                assign.value
                for part in parts
                if part.deep_equals(place) and not whole.deep_equals(place)
            )
    return out


def _of_tuple(
    assign: cst.Assign, values: cst.Tuple, place: cst.BaseExpression
) -> list[cst.BaseExpression]:
    """Return what ``a, b = 0.0, 0`` gives one of its targets."""
    return [
        value.value
        for target in assign.targets
        if isinstance(target.target, cst.Tuple)
        and len(target.target.elements) == len(values.elements)
        for part, value in zip(target.target.elements, values.elements, strict=True)
        if part.value.deep_equals(place)
    ]


@question(yes="the value is used", no="the value is not used")
def uses_of(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the places where the value of an expression is read: itself, or all reads of its
    name."""
    above = module.parent(node)
    match above:
        case cst.Assign([cst.AssignTarget(cst.Name(name))]):
            return list(readers_of(module, above, name))
        case cst.AnnAssign(cst.Name(name)):
            return list(readers_of(module, above, name))
        case cst.Expr():
            return []
    return [node]


@question(
    yes="the value is used in one place", no="the value of `{0}` is used in more than one place"
)
def sole_use(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the one place where the value of an expression is read; None where there are more, or
    none."""
    found = uses_of(module, node)
    return found[0] if len(found) == 1 else None
