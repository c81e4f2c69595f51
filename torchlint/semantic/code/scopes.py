"""Classes and functions of a file: hierarchies, what each is, decorators, where autograd is off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.grad_contexts import GradContexts
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import Tree
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import names as torch_names

if TYPE_CHECKING:
    from torchlint.semantic.elsewhere import Definition

_MODULE_WORDS = regex(
    r"(Module|Model|Net|Network|Layer|Block|Loss|Encoder|Decoder|Head|Backbone|Transformer|Attention)$"
)
_LOSS_CLASS = regex(
    r"^(?!.*(Plot|Vis|Log(ger|ging)|Print|Show|Save|Track|History|Callback|Schedul))"
    r".*(Loss|Losses|Criterion)$"
)


class Scopes(GradContexts):
    """Questions about the classes and functions of one file."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names
        self._module: dict[cst.ClassDef, bool] = {}
        self._below: dict[cst.ClassDef, list[cst.ClassDef]] | None = None
        self._lineage: dict[cst.ClassDef, list[cst.ClassDef]] = {}
        self._methods: dict[cst.ClassDef, dict[str, cst.FunctionDef]] = {}

    # -- classes -----------------------------------------------------------------------------------

    def local_class(self, expr: cst.CSTNode | None) -> cst.ClassDef | None:
        """Return the class of this file that an expression names."""
        if type(expr) is cst.Attribute and self.names.is_this_module(expr.value):
            bindings = self.names.tables.get(self.tree.root, {}).get(expr.attr.value, [])
        elif type(expr) is cst.Name:
            _, bindings = self.names.bindings(expr.value, expr)
        else:
            return None
        found = [b.node for b in bindings if b.kind == "class"]
        return (
            found[0]
            if len(found) == len(bindings) == 1 and isinstance(found[0], cst.ClassDef)
            else None
        )

    def bases(self, node: cst.ClassDef) -> Iterator[cst.BaseExpression]:
        """Yield the base class expressions."""
        for arg in node.bases:
            if arg.star == "":
                value = arg.value
                yield value.value if isinstance(value, cst.Subscript) else value

    def lineage(self, node: cst.ClassDef) -> list[cst.ClassDef]:
        """Return the class and its bases within this file, nearest first."""
        if node in self._lineage:
            return self._lineage[node]
        out: list[cst.ClassDef] = []
        todo = [node]
        while todo:
            at = todo.pop(0)
            if at in out:
                continue
            out.append(at)
            todo.extend(c for b in self.bases(at) if (c := self.local_class(b)) is not None)
        self._lineage[node] = out
        return out

    def subclasses(self, node: cst.ClassDef) -> list[cst.ClassDef]:
        """Return the classes of this file that inherit from `node`, without itself."""
        if self._below is None:
            self._below = {}
            for cls in self.tree.nodes(cst.ClassDef):
                for above in self.lineage(cls)[1:]:
                    self._below.setdefault(above, []).append(cls)
        return self._below.get(node, [])

    def base_names(self, node: cst.ClassDef) -> list[str]:
        """Return the dotted names of all bases outside this file, of the whole lineage.

        Behind the name of a base in another file of the project stand those of its own bases.
        """
        return self._outside(node)[0]

    def family_outside(self, node: cst.ClassDef) -> list[Definition]:
        """Return the ancestors of a class in other files of the project, nearest first."""
        return self._outside(node)[1]

    @remembered
    def _outside(self, node: cst.ClassDef) -> tuple[list[str], list[Definition]]:
        names: list[str] = []
        classes: list[Definition] = []
        for name in self._foreign(node):
            lineage = self.names.outside.lineage(name)
            names += [name, *(torch_names.canonical(each) for each in lineage.outside)]
            classes += lineage.classes
        return names, classes

    def _foreign(self, node: cst.ClassDef) -> list[str]:
        bases = [
            base
            for member in self.lineage(node)
            for base in self.bases(member)
            if self.local_class(base) is None
        ]
        return [self.names.name(base) or dotted_text(base) or "" for base in bases]

    def own_method(self, node: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """Return the method that the class itself defines under `name`."""
        if node not in self._methods:
            self._methods[node] = {
                method.name.value: method for method in reversed(self.methods(node))
            }
        return self._methods[node].get(name)

    def class_called(self, name: str) -> cst.ClassDef | None:
        """Return the class that the file's top level binds to a name, where it binds nothing
        else."""
        bindings = self.names.tables.get(self.tree.root, {}).get(name, [])
        found = bindings[0].node if len(bindings) == 1 else None
        return found if isinstance(found, cst.ClassDef) else None

    def method(self, node: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """Return the method that an instance of the class finds under `name` in this file."""
        for member in self.lineage(node):
            found = self.own_method(member, name)
            if found is not None:
                return found
        return None

    def methods(self, node: cst.ClassDef) -> list[cst.FunctionDef]:
        """Return the functions defined directly in the class body."""
        if not isinstance(node.body, cst.IndentedBlock):
            return []
        return [item for item in node.body.body if isinstance(item, cst.FunctionDef)]

    def is_module(self, node: cst.ClassDef | None) -> bool:
        """Say whether the class is an nn.Module: by its bases, or by a forward method and a
        module-like base."""
        if node is None:
            return False
        if node not in self._module:
            self._module[node] = self._is_module(node)
        return self._module[node]

    def _is_module(self, node: cst.ClassDef) -> bool:
        names = self.base_names(node)
        for name in names:
            if name in torch_names.MODULE_BASES or name.startswith(
                ("torch.nn.", "torchvision.models.")
            ):
                return True
            if name.startswith("torch.") and not name.startswith("torch.nn"):
                return False
        unknown = [name for name in names if not self.names.outside.lineage(name).classes]
        if any(_MODULE_WORDS.search(name) or name.startswith(".") for name in unknown):
            return self.method(node, "forward") is not None
        return False

    def is_loss(self, node: cst.ClassDef | None) -> bool:
        """Say whether the class is a loss that is no module: by its name or a base's."""
        if node is None:
            return False
        names = (*self.base_names(node), *(each.name.value for each in self.lineage(node)))
        return any(_LOSS_CLASS.search(name) for name in names)

    def is_optimizer(self, node: cst.ClassDef | None) -> bool:
        """Say whether the class is an optimizer of torch: by its bases."""
        return node is not None and any(
            name == "torch.optim.optimizer.Optimizer"
            or (name.startswith("torch.optim.") and name.count(".") == 2 and "_" not in name)
            for name in self.base_names(node)
        )

    def is_lightning(self, node: cst.ClassDef | None) -> bool:
        """Say whether the class is a LightningModule."""
        if node is None:
            return False
        names = self.base_names(node)
        if any(n in torch_names.LIGHTNING_BASES or n.endswith("LightningModule") for n in names):
            return True
        # A base class from elsewhere that has Lightning's steps, in a file that works with
        # Lightning.
        return any(
            n.endswith(("Module", "Model")) and not n.startswith("torch.") for n in names
        ) and (
            self._imports_lightning()
            and any(self.method(node, step) is not None for step in torch_names.STEP_METHODS)
        )

    def _imports_lightning(self) -> bool:
        table = self.names.tables.get(self.tree.root, {})
        return any(
            b.dotted.startswith(("lightning", "pytorch_lightning"))
            for found in table.values()
            for b in found
        )

    def is_dataset(self, node: cst.ClassDef | None) -> bool:
        """Say whether the class is a dataset: by its bases, or because it has ``__getitem__`` and
        ``__len__``."""
        if node is None or self.is_module(node):
            return False
        if any(
            n in torch_names.DATASET_BASES or n.endswith("Dataset") for n in self.base_names(node)
        ):
            return True
        return (
            self.own_method(node, "__getitem__") is not None
            and self.own_method(node, "__len__") is not None
        )

    # -- functions ---------------------------------------------------------------------------------

    def functions_named(self, name: str) -> list[cst.FunctionDef]:
        """Return the functions and methods that the file defines under a name."""
        above = ((each, self.tree.parents.get(each)) for each in self.tree.named(name))
        return [f for each, f in above if isinstance(f, cst.FunctionDef) and f.name is each]

    def decorators(
        self, node: cst.FunctionDef | cst.ClassDef
    ) -> list[tuple[cst.BaseExpression, str]]:
        """Return each decorator's callee expression with its dotted name, or its plain text where
        unknown."""
        out = []
        for decorator in node.decorators:
            expr = decorator.decorator
            callee = expr.func if isinstance(expr, cst.Call) else expr
            out.append((expr, self.names.name(callee) or dotted_text(callee) or ""))
        return out

    def name_outside(self, function: cst.FunctionDef) -> str | None:
        """Return the name by which other files reach a function, ``f`` or ``Class.method``, of a
        constructor its class's; None for one that lies deeper."""
        if self.tree.def_of(function) is not None:
            return None
        cls = self.tree.class_of(function)
        if cls is None:
            return function.name.value
        bound = self.names.tables.get(self.tree.root, {}).get(cls.name.value, [])
        alone = len(bound) == 1 and bound[0].node is cls
        if not alone or function.name.value == "__init__":
            return cls.name.value if alone else None
        return f"{cls.name.value}.{function.name.value}"

    def enclosing_functions(self, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
        """Yield the ``def`` that holds `node`, the ``def`` that holds that one, and so on."""
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                yield above


@question(ground=True)
def scopes(module: Module) -> Scopes:
    """Return the classes and functions of a file."""
    return Scopes(module.tree, module.names)


@question(ground=True, remember=False)
def local_class(module: Module, node: cst.CSTNode | None) -> cst.ClassDef | None:
    """Return the class of this file that an expression names."""
    return scopes(module).local_class(node)


@question(ground=True, remember=False)
def base_names(module: Module, cls: cst.ClassDef) -> list[str]:
    """Return the dotted names of a class's bases outside this file."""
    return scopes(module).base_names(cls)


@question(ground=True, remember=False)
def method_of(module: Module, cls: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    """Return what an instance of the class finds under `name` in this file."""
    return scopes(module).method(cls, name)


@question(ground=True, remember=False)
def own_method(module: Module, cls: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    """Return the method that a class itself defines under `name`."""
    return scopes(module).own_method(cls, name)


@question(ground=True)
def name_outside(module: Module, function: cst.FunctionDef) -> str | None:
    """Return the name by which other files reach a function, ``f`` or ``Class.method``, of a
    constructor its class's; None for one that lies deeper."""
    return scopes(module).name_outside(function)


@question(
    yes="the function is compiled by torch.compile",
    no="the function is not compiled in this file",
    ground=True,
)
def is_compiled(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` lies in a function given to torch.compile or torch.jit.script in this
    file."""
    for function in scopes(module).enclosing_functions(node):
        if any(
            name in ("torch.compile", "torch.jit.script")
            for _, name in scopes(module).decorators(function)
        ):
            return True
        if function.name.value in _passed_to_compile(module):
            return True
    return False


@question(ground=True)
def _passed_to_compile(module: Module) -> frozenset[str]:
    """Return what the file hands to ``torch.compile`` or ``torch.jit.script``, as it is spelled."""
    return frozenset(
        dotted_text(call.args[0].value) or ""
        for call in module.nodes(cst.Call)
        if call.args and module.name(call.func) in ("torch.compile", "torch.jit.script")
    )
