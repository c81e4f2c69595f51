"""What Python and torch call a piece of syntax when it runs: methods of protocols, and operators of
torch, which stand in a trace without a function's name."""

from __future__ import annotations

BINARY = {
    "Add": ("add", frozenset({"add", "add_"})),
    "Sub": ("sub", frozenset({"sub", "sub_", "rsub"})),
    "Mult": ("mul", frozenset({"mul", "mul_"})),
    "Div": ("truediv", frozenset({"div", "div_", "reciprocal", "mul"})),
    "FloorDiv": ("floordiv", frozenset({"floor_divide", "floor_divide_"})),
    "Mod": ("mod", frozenset({"remainder", "remainder_", "fmod"})),
    "Pow": ("pow", frozenset({"pow", "pow_"})),
    "MatMult": ("matmul", frozenset({"matmul", "mm", "mv", "bmm"})),
    "BitAnd": ("and", frozenset({"bitwise_and", "bitwise_and_", "__and__", "__iand__"})),
    "BitOr": ("or", frozenset({"bitwise_or", "bitwise_or_", "__or__", "__ior__"})),
    "BitXor": ("xor", frozenset({"bitwise_xor", "bitwise_xor_", "__xor__", "__ixor__"})),
    "LShift": ("lshift", frozenset({"__lshift__", "__ilshift__", "bitwise_left_shift"})),
    "RShift": ("rshift", frozenset({"__rshift__", "__irshift__", "bitwise_right_shift"})),
}
"""By operator: what the method of Python is called without its underscores, and what torch runs."""
UNARY = {
    "USub": ("neg", frozenset({"neg"})),
    "UAdd": ("pos", frozenset({"positive"})),
    "Invert": ("invert", frozenset({"bitwise_not", "logical_not"})),
}
_EQUAL = frozenset({"__eq__", "__ne__"})
COMPARISONS = {
    "Eq": (_EQUAL, frozenset({"eq"})),
    "NotEq": (_EQUAL, frozenset({"ne"})),
    "Lt": (frozenset({"__lt__", "__gt__"}), frozenset({"lt"})),
    "LtE": (frozenset({"__le__", "__ge__"}), frozenset({"le"})),
    "Gt": (frozenset({"__gt__", "__lt__"}), frozenset({"gt"})),
    "GtE": (frozenset({"__ge__", "__le__"}), frozenset({"ge"})),
    "In": (frozenset({"__contains__", "__iter__", "__eq__"}), frozenset({"eq", "is_nonzero"})),
    "NotIn": (frozenset({"__contains__", "__iter__", "__eq__"}), frozenset({"eq", "is_nonzero"})),
}
"""By comparison, all but ``is``: methods of Python, and what torch runs."""
READS = frozenset({"item", "_local_scalar_dense", "is_nonzero"})
"""What ``float(t)``, ``if t:`` and their like come down to."""
READERS = frozenset({"float", "int", "bool", "complex", "item"})
"""What one calls to read a value."""
INDEXING = frozenset(
    {
        *("select", "slice", "unsqueeze", "index", "alias", "nonzero", "_to_copy", "to", "item"),
        *("view", "expand", "lift_fresh", "detach_", "is_nonzero", "_local_scalar_dense"),
    }
)
"""What ``t[...]`` runs."""
STORING = frozenset({"index_put_", "copy_", "fill_", "scalar_tensor", "_index_put_impl_"})
"""What ``t[...] = x`` runs besides."""
ATTRIBUTES = {
    "T": frozenset({"numpy_T", "t", "permute", "transpose"}),
    "mT": frozenset({"mT", "transpose"}),
    "H": frozenset({"matrix_H", "adjoint", "transpose", "conj"}),
    "mH": frozenset({"mH", "adjoint", "transpose", "conj"}),
    "real": frozenset({"real", "view_as_real", "select"}),
    "imag": frozenset({"imag", "view_as_real", "select"}),
    "data": frozenset({"detach", "alias", "set_data", "variable_data"}),
    "grad": frozenset({"detach", "alias"}),
}
"""What attributes of tensors run."""
ITERATION = frozenset({"__iter__", "__next__", "__anext__", "__getitem__"})
_MANY = frozenset({"__iter__", "__next__", "__len__", "__length_hint__", "<genexpr>", "keys"})
CONVERSIONS = {
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "dict", "zip", "enumerate"), _MANY),
    **dict.fromkeys(("map", "filter", "reversed", "iter", "bytes", "bytearray"), _MANY),
    "float": frozenset({"__float__", "__index__"}),
    "int": frozenset({"__int__", "__index__", "__trunc__"}),
    "complex": frozenset({"__complex__", "__float__"}),
    "bool": frozenset({"__bool__", "__len__"}),
    "str": frozenset({"__str__", "__repr__"}),
    "range": frozenset({"__index__"}),
    "slice": frozenset({"__index__"}),
    "type": frozenset({"__new__", "__init__"}),
    "super": frozenset(),
}
"""Classes of Python whose call no trace shows: methods that they call."""
