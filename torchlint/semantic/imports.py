"""Where the names that an import binds are used, and as what."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.flow import Flow
from torchlint.semantic.names import Names, dotted_text
from torchlint.semantic.tree import Tree

Import = cst.Import | cst.ImportFrom


def import_of(node: cst.CSTNode, names: Names) -> cst.Import | cst.ImportFrom | None:
    """Return the one import statement that binds the first name of ``a.b.c``, or None."""
    while isinstance(node, cst.Attribute):
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    _, bindings = names.bindings(node.value, node)
    found = bindings[0].node if len(bindings) == 1 and bindings[0].kind == "import" else None
    return found if isinstance(found, (cst.Import, cst.ImportFrom)) else None


def reads_of(home: cst.Import | cst.ImportFrom, names: Names, flow: Flow, tree: Tree) -> list[cst.Name]:
    """Return the reads of all names that an import statement binds; those in annotations are left out."""
    if isinstance(home.names, cst.ImportStar):
        return []
    local = [dotted_text(a.asname.name if a.asname is not None else a.name) or "" for a in home.names]
    return [
        read
        for name in local
        for read in flow.reads(tree.root, name.partition(".")[0])
        if import_of(read, names) is home and not any(isinstance(a, cst.Annotation) for a in tree.ancestors(read))
    ]


def called(module: str, usual: str, tree: Tree) -> str:
    """Return the name by which the file's top-level imports know a module: `usual` unless all have another."""
    lines = [line.body for line in tree.root.body if isinstance(line, cst.SimpleStatementLine)]
    aliases = [alias for line in lines for small in line if isinstance(small, cst.Import) for alias in small.names]
    bound = [
        dotted_text(alias.asname.name if alias.asname is not None else alias.name) or usual
        for alias in aliases
        if dotted_text(alias.name) == module
    ]
    return usual if usual in bound or not bound else bound[0]


def use_of(node: cst.CSTNode, tree: Tree) -> cst.BaseExpression | None:
    """Return the call, or the bare decorator, in which a reference ends; None for any other use."""
    above = tree.parents.get(node)
    while isinstance(above, cst.Attribute) and above.value is node:
        node, above = above, tree.parents.get(above)
    if isinstance(above, cst.Decorator):
        return above.decorator
    return above if isinstance(above, cst.Call) and above.func is node else None


def is_exported(home: cst.Import | cst.ImportFrom, tree: Tree, filename: str) -> bool:
    """Say whether other files may use a name that an import binds: an ``__init__.py``, or a name in quotes."""
    strings = {s.raw_value for s in tree.nodes(cst.SimpleString) if isinstance(s, cst.SimpleString)}
    names = () if isinstance(home.names, cst.ImportStar) else home.names
    bound = {dotted_text(a.asname.name if a.asname is not None else a.name) for a in names}
    return filename.endswith("__init__.py") or bool(bound & strings)


def stays(call: cst.BaseExpression, names: Names, flow: Flow, tree: Tree) -> bool:
    """Say whether a new object is only seen by its own function or script: bound to one name, used for its methods."""
    home, owner = tree.small_statement(call), tree.owners[call]
    target = home.targets[0].target if isinstance(home, cst.Assign) and len(home.targets) == 1 else None
    if not isinstance(target, cst.Name) or target.value in names.outer.get(owner, ()):
        return False
    reads = flow.reads(owner, target.value)
    # A global name that only functions read may as well be imported by another file.
    if owner is tree.root and all(tree.owners[read] is not tree.root for read in reads):
        return False
    return all(isinstance(tree.parents.get(r), (cst.Attribute, cst.Comparison, cst.If)) for r in reads)
