"""What the classes of a file are: networks, LightningModules, datasets."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.bindings import top_level
from torchlint.semantic.code.scopes import local_class, scopes
from torchlint.semantic.module import Module
from torchlint.semantic.question import question


@question(
    yes="it is code of a LightningModule", no="it is not code of a LightningModule", ground=True
)
def in_lightning(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` lies in a LightningModule."""
    cls = module.class_of(node)
    return cls is not None and _is_lightning(module, cls)


@question(ground=True)
def has_lightning(module: Module) -> bool:
    """Whether a class of the file is a LightningModule."""
    return any(_is_lightning(module, cls) for cls in module.nodes(cst.ClassDef))


@question(ground=True)
def _is_lightning(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class is a LightningModule."""
    return scopes(module).is_lightning(cls)


@question(
    yes="the class is an nn.Module", no="the class is no nn.Module", ground=True, remember=False
)
def is_network(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class is an nn.Module."""
    return scopes(module).is_module(cls)


@question(ground=True)
def family_of(module: Module, cls: cst.ClassDef) -> list[cst.ClassDef]:
    """Return a class, its bases and its subclasses, as far as this file has them."""
    return [*scopes(module).lineage(cls), *scopes(module).subclasses(cls)]


@question(yes="the class is a dataset", no="the class is no dataset", ground=True, remember=False)
def is_dataset(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class is a dataset."""
    return scopes(module).is_dataset(cls)


@question(ground=True)
def class_named(module: Module, node: cst.BaseExpression) -> tuple[Module, cst.ClassDef] | None:
    """Return the class of the project that an expression names, with the analysis of its file."""
    own = local_class(module, node)
    if own is not None:
        return module, own
    return _class_elsewhere(module, module.name(node))


def class_seen_from(
    module: Module, where: Module, node: cst.BaseExpression
) -> tuple[Module, cst.ClassDef] | None:
    """Return the class that an expression of another file names, whose own imports may not be
    followed: by its full name from here."""
    found, name = class_named(where, node), where.name(node) or ""
    return found or (_class_elsewhere(module, name) if not name.startswith(".") else None)


def _class_elsewhere(module: Module, name: str | None) -> tuple[Module, cst.ClassDef] | None:
    definition = module.outside.find(name)
    if definition is None or definition.kind != "class":
        return None
    where = module.outside.module_of(definition)
    found = top_level(where, definition.name) if where is not None else None
    return (where, found) if isinstance(found, cst.ClassDef) else None
