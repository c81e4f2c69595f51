"""Where the names that an import binds are used, and as what."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import Tree, is_name, root_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

Import = cst.Import | cst.ImportFrom
_WORDS = regex(r"\w+")


@question(ground=True, remember=False)
def import_of(module: Module, node: cst.CSTNode) -> cst.Import | cst.ImportFrom | None:
    """Return the one import statement that binds the first name of ``a.b.c``, or None."""
    node = root_of(node, cst.Attribute)
    if not isinstance(node, cst.Name):
        return None
    _, bindings = module.names.bindings(node.value, node)
    found = bindings[0].node if len(bindings) == 1 and bindings[0].kind == "import" else None
    return found if isinstance(found, (cst.Import, cst.ImportFrom)) else None


@question(ground=True)
def import_reads(module: Module, home: Import) -> list[cst.Name]:
    """Return the reads of all names that an import statement binds; those in annotations are left
    out."""
    if isinstance(home.names, cst.ImportStar):
        return []
    local = [
        dotted_text(a.asname.name if a.asname is not None else a.name) or "" for a in home.names
    ]
    return [
        read
        for name in local
        for read in reads_of(module, module.root, name.partition(".")[0])
        if import_of(module, read) is home
        and not any(isinstance(a, cst.Annotation) for a in module.ancestors(read))
    ]


@question(ground=True)
def torch_name(module: Module) -> str:
    """Return the name by which the file's top-level imports know torch: ``torch`` unless all have
    another."""
    lines = [line.body for line in module.root.body if isinstance(line, cst.SimpleStatementLine)]
    aliases = [
        alias
        for line in lines
        for small in line
        if isinstance(small, cst.Import)
        for alias in small.names
    ]
    bound = [
        dotted_text(alias.asname.name if alias.asname is not None else alias.name) or "torch"
        for alias in aliases
        if dotted_text(alias.name) == "torch"
    ]
    return "torch" if "torch" in bound or not bound else bound[0]


@question(ground=True, remember=False)
def use_of(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the call, or the bare decorator, in which a reference ends; None for any other use."""
    above = module.parent(node)
    while isinstance(above, cst.Attribute) and above.value is node:
        node, above = above, module.parent(above)
    if isinstance(above, cst.Decorator):
        return above.decorator
    return above if isinstance(above, cst.Call) and above.func is node else None


@question(yes="other files may use the name", no="no other file uses the name", ground=True)
def is_exported(module: Module, home: Import) -> bool:
    """Say whether other files may use a name that an import binds: an ``__init__.py``, or a name in
    quotes; or whether the file evaluates a text with it."""
    strings = {s.raw_value for s in module.nodes(cst.SimpleString)}
    for call in module.nodes(cst.Call):
        if is_name(call.func, "eval", "exec"):
            for text in module.within(call, cst.SimpleString):
                strings |= set(_WORDS.findall(text.raw_value))
    names = () if isinstance(home.names, cst.ImportStar) else home.names
    bound = {dotted_text(a.asname.name if a.asname is not None else a.name) for a in names}
    return module.filename.endswith("__init__.py") or bool(bound & strings)


@question(ground=True, remember=False)
def sole_binding(module: Module, call: cst.BaseExpression) -> str | None:
    """Return the one name that a new object is bound to, where that is only used to call its
    methods; else None."""
    tree = module.tree
    home, owner = tree.small_statement(call), tree.owners[call]
    target = (
        home.targets[0].target if isinstance(home, cst.Assign) and len(home.targets) == 1 else None
    )
    if (
        not isinstance(home, cst.Assign)
        or not isinstance(target, cst.Name)
        or not _is_value(call, home, tree)
    ):
        return None
    if target.value in module.names.outer.get(owner, ()) or any(
        isinstance(a, cst.ClassDef) for a in _holders(home, tree)
    ):
        return None
    reads = reads_of(module, tree.root if owner is tree.root else owner, target.value)
    # A global name that only functions read may as well be imported by another file.
    if owner is tree.root and all(tree.owners[read] is not tree.root for read in reads):
        return None
    return target.value if all(_calls_method(read, tree) for read in reads) else None


def _is_value(call: cst.BaseExpression, home: cst.Assign, tree: Tree) -> bool:
    """Say whether a call is what an assignment gives, be it under a condition."""
    node: cst.CSTNode = call
    above = tree.parents.get(node)
    while isinstance(above, cst.IfExp) and above.test is not node:
        node, above = above, tree.parents.get(above)
    return above is home


def _holders(node: cst.CSTNode, tree: Tree) -> Iterator[cst.CSTNode]:
    """Yield what holds a statement, up to the function that it belongs to."""
    for above in tree.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return
        yield above


def _calls_method(read: cst.Name, tree: Tree) -> bool:
    """Say whether a name is read to call a public method of what it holds, or to ask whether it
    holds something."""
    above = tree.parents.get(read)
    if isinstance(above, cst.Attribute):
        user = tree.parents.get(above)
        called = isinstance(user, cst.Call) and user.func is above
        return not above.attr.value.startswith("_") and (called or isinstance(user, cst.Expr))
    return isinstance(above, (cst.Comparison, cst.If))
