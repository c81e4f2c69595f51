"""What one call of a function of the file makes of an expression inside that function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.values import params
from torchlint.semantic.values.value import UNKNOWN, Value

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

_FUEL = 2


def seen_from(
    values: Values, node: cst.CSTNode, function: cst.FunctionDef, site: cst.Call
) -> Value:
    """Return the value of `node`, an expression of `function`, when `site` calls the function."""
    given = passed(values, function, site)
    if not any(value.tensor or value.kind in ("tuple", "list") for value in given.values()):
        return UNKNOWN
    return values.run_with(function, _FUEL, given).value_of(node)


def passed(values: Values, function: cst.FunctionDef, site: cst.Call) -> dict[str, Value]:
    """Return the values that a call passes, by parameter; what is left for ``*args`` as a tuple."""
    bound = values.tree.bind(function, site)
    given = {name: values.value(expr, _FUEL) for name, expr in bound.items()}
    star = function.params.star_arg
    if isinstance(star, cst.Param):
        given[star.name.value] = params.rest(values, function, site, _FUEL)
    return {name: value.but(node=None) for name, value in given.items()}
