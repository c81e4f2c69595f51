"""Frozen dataclasses that are made in a tenth of the time.

`dataclasses` compiles six methods for each class, a millisecond for every two or three classes. A
check imports a hundred and forty of them, and ran for a fifth of its time before it read a file.
Here ``__init__`` alone is compiled; the others are the same functions for all classes. For type
checkers this is `dataclasses.dataclass`; `frozen` is ``dataclass(frozen=True, slots=True)``.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

Fields = tuple[dataclasses.Field[Any], ...]

_UNSET = object()
_KNOWN = frozenset(("frozen", "slots", "eq", "order", "kw_only"))
_ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    from typing_extensions import dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
    def frozen(cls: type[T]) -> type[T]: ...
else:

    def dataclass(cls=None, /, **how):
        """Do what `dataclasses.dataclass` does, sooner for classes that are frozen, have slots and
        inherit no fields."""
        if cls is None:
            return lambda cls: dataclass(cls, **how)
        plain = how.keys() <= _KNOWN and how.get("frozen") and how.get("slots")
        if not plain or any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__):
            return dataclasses.dataclass(cls, **how)
        own, named = set(vars(cls)), how.get("kw_only", False)
        made = dataclasses.dataclass(
            cls, init=False, repr=False, eq=False, slots=True, kw_only=named
        )
        made.__dataclass_params__.frozen = True  # for those that inherit from it
        fields = dataclasses.fields(made)
        methods = {**_SHARED, "__init__": _init(made, fields, named=named)}
        if how.get("eq", True):
            methods.update(_compared(fields, ordered=how.get("order", False)))
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    frozen = dataclass(frozen=True, slots=True)


def import_libcst() -> None:
    """Import libcst without what `dataclasses` compiles for each class of nodes: methods that the
    classes have already, two that refuse to set a field, which are the same for all, and each
    ``__init__`` before somebody calls it; and without its metadata, of which it needs two modules.
    It takes half the time."""
    if "libcst" in sys.modules:
        return
    usual: Any = dataclasses.dataclass
    nodes: list[Any] = []

    def sooner(cls: Any = None, /, **how: Any) -> Any:
        if cls is None:
            return lambda cls: sooner(cls, **how)
        if not how.get("frozen") or not {"__repr__", "__eq__", "__hash__"} <= vars(cls).keys():
            return usual(cls, **how)
        made = usual(cls, init=False, repr=False, eq=False)
        if "__init__" not in vars(cls):
            made.__init__ = _made_late()
        made.__setattr__ = made.__delattr__ = _refuse
        nodes.append(made)
        return made

    dataclasses.dataclass = sooner
    metadata = sys.modules["libcst.metadata"] = _package_for_later("libcst", "metadata")
    try:
        library: Any = import_module("libcst")
        library.metadata = metadata
    finally:
        dataclasses.dataclass = usual
        for each in nodes:
            each.__dataclass_params__.frozen = each.__dataclass_params__.init = True


class _Later(ModuleType):
    """A package whose own code runs when somebody asks for a name that it lacks."""

    def __getattr__(self, name: str) -> Any:
        package: Any = self
        package.__class__ = ModuleType
        package.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _package_for_later(above: str, name: str) -> ModuleType:
    """Return a package that is not run yet, in another that may not be imported yet."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec, module_from_spec

    outer: Any = find_spec(above)
    inner: Any = PathFinder.find_spec(f"{above}.{name}", outer.submodule_search_locations)
    made = module_from_spec(inner)
    made.__class__ = _Later
    return made


def _made_late() -> Callable[..., None]:
    """Return an ``__init__`` that is compiled when it is first called."""

    def late(self: Any, /, *given: Any, **named: Any) -> None:
        mine: Any = [each for each in type(self).__mro__ if vars(each).get("__init__") is late]
        cls = mine[0]
        cls.__init__ = _init(cls, dataclasses.fields(cls), named=False)
        cls.__init__(self, *given, **named)

    return late


def _init(cls: type, fields: Fields, *, named: bool) -> Callable[..., None]:
    """Return the ``__init__`` of a class: each field is set by its slot."""
    names: dict[str, Any] = {"_unset": _UNSET}
    parameters, body = ["self", *(["*"] if named and fields else [])], []
    for each in fields:
        assert each.init, "a field that is not given is for classes that are not frozen"
        name = each.name
        names[f"_set_{name}"] = getattr(cls, name).__set__
        given, value = name, name
        if each.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = each.default_factory
            given, value = f"{name}=_unset", f"_make_{name}() if {name} is _unset else {name}"
        elif each.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = each.default
            given = f"{name}=_default_{name}"
        parameters.append(given)
        body.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    code = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(code, names)  # noqa: S102 -- of the names of fields alone
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _compared(fields: Fields, *, ordered: bool) -> dict[str, Callable[..., Any]]:
    """Return the methods that look at the fields that are compared."""
    names = [each.name for each in fields if each.compare]
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda self: ()

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or values(self) == values(other)

    def digest(self: Any) -> int:
        return hash(values(self))

    def by(order: Callable[[Any, Any], bool]) -> Callable[[Any, object], Any]:
        def compare(self: Any, other: object) -> Any:
            alike = other.__class__ is self.__class__
            return order(values(self), values(other)) if alike else NotImplemented

        return compare

    orders = {f"__{order.__name__}__": by(order) for order in _ORDERS if ordered}
    return {"__eq__": equal, "__hash__": digest, **orders}


def _refuse(self: Any, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _shown(self: Any) -> str:
    said = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(said)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__repr__": _shown,
    "__getstate__": _state,
    "__setstate__": _restore,
}
