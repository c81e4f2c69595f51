"""Questions about places, names and calls: the part of `Module` that reads the tree alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from torchlint.semantic.code import imports
from torchlint.semantic.code import scopes as scope_facts
from torchlint.semantic.code.flow import Flow
from torchlint.semantic.code.guards import Guards
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.scopes import Scopes
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, Function, Tree
from torchlint.semantic.project.exports import ArgumentRead
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.torch import api as torch_api
from torchlint.semantic.torch.signatures import SIGNATURES

_TIMING = ("torch.cuda.Event", "torch.utils.benchmark.Timer")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call by parameter name; `open` where ``*args`` or ``**kwargs`` may add more."""

    named: Mapping[str, cst.Arg]
    open: bool

    def value(self, name: str) -> cst.BaseExpression | None:
        """Return the expression given for a parameter, or None."""
        arg = self.named.get(name)
        return arg.value if arg is not None else None


class Places:
    """Where nodes stand, what names mean, and who calls whom."""

    def __init__(self, root: cst.Module, filename: str, outside: Outside) -> None:
        self.root = root
        self.filename = filename
        self.tree = Tree(root)
        self._names = Names(self.tree, filename, outside)
        self.outside = outside
        self.path = outside.path
        self._scopes = Scopes(self.tree, self._names)
        self._flow = Flow(self.tree, self._names, self._scopes)
        self._guards = Guards(self.tree, self._names)
        self._compiled: frozenset[str] | None = None
        self._benches: dict[cst.FunctionDef, bool] = {}
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

    def meaning(self, name: str, at: cst.CSTNode) -> str | None:
        """Return the one dotted name that a plain name would stand for, were it written where `at` stands."""
        return self._names.meaning(name, at)

    def arguments(self, call: cst.Call, signature: str) -> Arguments:
        """Bind a call's arguments to the parameters of a signature named in `signatures.SIGNATURES`.

        Raises:
            KeyError: there is no such signature.
        """
        params = SIGNATURES[signature]
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

    def bases_behind(self, name: str) -> list[str]:
        """Return the dotted names of the bases of a class in another file of the project."""
        return [torch_api.canonical(n) for n in self._names.outside.lineage(name).outside]

    def method(self, cls: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """Return what an instance of the class finds under `name` in this file."""
        return self._scopes.method(cls, name)

    def own_method(self, cls: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """Return the method that a class itself defines under `name`."""
        return self._scopes.own_method(cls, name)

    def top_level(self, name: str) -> cst.CSTNode | None:
        """Return the function or class that the file's top level binds to `name`, where it binds nothing else."""
        bindings = self._names.tables.get(self.root, {}).get(name, [])
        return bindings[0].node if len(bindings) == 1 else None

    def argument_reads(self, name: str) -> tuple[ArgumentRead, ...]:
        """Return the arguments that a function of another file, by its dotted name here, always reads on the host."""
        return self._names.outside.reads(name)

    def reads(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the reads of a plain name inside `scope` (nested functions included)."""
        return self._flow.reads(scope, name)

    def writes(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the places inside `scope` that bind a plain name."""
        return self._flow.writes(scope, name)

    def names_in(self, node: cst.CSTNode) -> frozenset[str]:
        """Return the plain names inside an expression or target."""
        return frozenset(n.value for n in self.tree.within(node, cst.Name) if isinstance(n, cst.Name))

    def binds_globally(self, function: cst.CSTNode, name: str) -> bool:
        """Say whether a function declares `name` global or nonlocal."""
        return name in self._names.outer.get(function, ())

    def names_of_outer_scopes(self) -> list[set[str]]:
        """Return, for each function that has any, the names that it declares global or nonlocal."""
        return list(self._names.outer.values())

    def imported_over(self, node: cst.CSTNode) -> bool:
        """Say whether an import may give a name inside `node` another meaning than a binding above it gave it."""
        names = (each for each in self.tree.within(node, cst.Name, nested=True) if isinstance(each, cst.Name))
        return any(self._names.imported_over(each.value, each) for each in names if not self._is_label(each))

    def starred_over(self, home: cst.CSTNode, names: Iterable[str]) -> bool:
        """Say whether an ``import *`` below a statement may bind anew one of the names that the statement binds."""
        return self._names.starred_over(home, names)

    def _is_label(self, name: cst.Name) -> bool:
        """Say whether a name is that of an attribute or of an argument."""
        above = self.tree.parents.get(name)
        return above is not None and name in (getattr(above, "attr", None), getattr(above, "keyword", None))

    def import_of(self, node: cst.CSTNode) -> cst.Import | cst.ImportFrom | None:
        """Return the one import statement that binds the first name of ``a.b.c``, or None."""
        return imports.import_of(node, self._names)

    def import_reads(self, home: cst.Import | cst.ImportFrom) -> list[cst.Name]:
        """Return the reads of all names that an import statement binds; those in annotations are left out."""
        return imports.reads_of(home, self._names, self._flow, self.tree)

    def called(self, module: str, usual: str) -> str:
        """Return the name by which this file imports a module at its top, the `usual` one where it has no other."""
        return imports.called(module, usual, self.tree)

    def use(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the call, or the bare decorator, in which a reference ends; None for any other use."""
        return imports.use_of(node, self.tree)

    def is_exported(self, home: cst.Import | cst.ImportFrom) -> bool:
        """Say whether other files may use a name that an import binds: an ``__init__.py``, or a name in quotes."""
        return imports.is_exported(home, self.tree, self.filename)

    def contexts(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        """Yield the calls that make the ``with`` contexts around `node` in its function, innermost statement first."""
        for above in self.tree.ancestors(node):
            if isinstance(above, FUNCTIONS):
                return
            for item in above.items if isinstance(above, cst.With) else ():
                if self.tree.is_within(node, item):
                    break
                if isinstance(item.item, cst.Call):
                    yield item.item

    def spare(self, call: cst.Call) -> cst.Expr | None:
        """Return the statement that is nothing but a call, where its block holds others as well; else None."""
        statement, line = self.tree.parents.get(call), self.tree.statement(call)
        block = self.tree.parents.get(line)
        filled = isinstance(line, cst.SimpleStatementLine) and (
            not isinstance(block, cst.IndentedBlock) or len(block.body) > 1
        )
        return statement if filled and isinstance(statement, cst.Expr) else None

    def throttled(self, node: cst.CSTNode, until: cst.CSTNode | None = None) -> bool:
        """Say whether a condition makes `node` run only now and then inside `until` (default: its function)."""
        return self._guards.throttled(node, until)

    def throttle(self, node: cst.CSTNode, until: cst.CSTNode | None = None) -> cst.BaseExpression | None:
        """Return the condition by which `throttled` holds, or None."""
        return self._guards.throttle(node, until)

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
        return any(self._is_bench(function) for function in self._scopes.enclosing_functions(node))

    def _is_bench(self, function: cst.FunctionDef) -> bool:
        if function not in self._benches:
            calls = (call for call in self.within(function, cst.Call) if isinstance(call, cst.Call))
            self._benches[function] = scope_facts.is_bench_name(function.name.value) or any(
                self.name(call.func) in _TIMING for call in calls
            )
        return self._benches[function]

    def compiled(self, node: cst.CSTNode) -> bool:
        """Say whether `node` lies in a function given to torch.compile or torch.jit.script in this file."""
        for function in self._scopes.enclosing_functions(node):
            if any(name in ("torch.compile", "torch.jit.script") for _, name in self._scopes.decorators(function)):
                return True
            if self._passed_to_compile(function.name.value):
                return True
        return False

    def _passed_to_compile(self, name: str) -> bool:
        if self._compiled is None:
            self._compiled = frozenset(
                dotted_text(call.args[0].value) or ""
                for call in self.nodes(cst.Call)
                if isinstance(call, cst.Call)
                and call.args
                and self.name(call.func) in ("torch.compile", "torch.jit.script")
            )
        return name in self._compiled
