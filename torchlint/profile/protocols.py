"""What Python and torch call a piece of syntax when it runs: methods of protocols, and operators of
torch, which stand in a trace without a function's name."""

from __future__ import annotations


def spelled(words: str) -> frozenset[str]:
    """Return the names that stand in a text."""
    return frozenset(words.split())


def _rows(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the rows of a table: two names, and what torch runs."""
    rows = (line.split() for line in text.strip().splitlines())
    return {syntax: (method, frozenset(operators)) for syntax, method, *operators in rows}


BINARY = _rows(
    """
    Add      add      add add_
    Sub      sub      sub sub_ rsub
    Mult     mul      mul mul_
    Div      truediv  div div_ reciprocal mul
    FloorDiv floordiv floor_divide floor_divide_
    Mod      mod      remainder remainder_ fmod
    Pow      pow      pow pow_
    MatMult  matmul   matmul mm mv bmm
    BitAnd   and      bitwise_and bitwise_and_ __and__ __iand__
    BitOr    or       bitwise_or bitwise_or_ __or__ __ior__
    BitXor   xor      bitwise_xor bitwise_xor_ __xor__ __ixor__
    LShift   lshift   __lshift__ __ilshift__ bitwise_left_shift
    RShift   rshift   __rshift__ __irshift__ bitwise_right_shift
    """
)
"""By operator: what the method of Python is called without its underscores, and what torch runs."""
UNARY = _rows(
    """
    USub   neg    neg
    UAdd   pos    positive
    Invert invert bitwise_not logical_not
    """
)
COMPARISONS = {
    syntax: (spelled(methods.replace(",", " ")), operators)
    for syntax, (methods, operators) in _rows(
        """
        Eq    __eq__,__ne__                  eq
        NotEq __eq__,__ne__                  ne
        Lt    __lt__,__gt__                  lt
        LtE   __le__,__ge__                  le
        Gt    __gt__,__lt__                  gt
        GtE   __ge__,__le__                  ge
        In    __contains__,__iter__,__eq__   eq is_nonzero
        NotIn __contains__,__iter__,__eq__   eq is_nonzero
        """
    ).items()
}
"""By comparison, all but ``is``: methods of Python, and what torch runs."""
READS = spelled("item _local_scalar_dense is_nonzero")
"""What ``float(t)``, ``if t:`` and their like come down to."""
READERS = spelled("float int bool complex item")
"""What one calls to read a value."""
INDEXING = spelled(
    "select slice unsqueeze index alias nonzero _to_copy to item view expand lift_fresh detach_ "
    "is_nonzero _local_scalar_dense"
)
"""What ``t[...]`` runs."""
STORING = spelled("index_put_ copy_ fill_ scalar_tensor _index_put_impl_")
"""What ``t[...] = x`` runs besides."""
ATTRIBUTES = {
    name: frozenset((first, *operators))
    for name, (first, operators) in _rows(
        """
        T    numpy_T  t permute transpose
        mT   mT       transpose
        H    matrix_H adjoint transpose conj
        mH   mH       adjoint transpose conj
        real real     view_as_real select
        imag imag     view_as_real select
        data detach   alias set_data variable_data
        grad detach   alias
        """
    ).items()
}
"""What attributes of tensors run."""
ITERATION = spelled("__iter__ __next__ __anext__ __getitem__")
CONVERSIONS = {
    **dict.fromkeys(
        spelled(
            "list tuple set frozenset dict zip enumerate map filter reversed iter bytes bytearray"
        ),
        spelled("__iter__ __next__ __len__ __length_hint__ <genexpr> keys"),
    ),
    "float": spelled("__float__ __index__"),
    "int": spelled("__int__ __index__ __trunc__"),
    "complex": spelled("__complex__ __float__"),
    "bool": spelled("__bool__ __len__"),
    "str": spelled("__str__ __repr__"),
    **dict.fromkeys(spelled("range slice"), spelled("__index__")),
    "type": spelled("__new__ __init__"),
    "super": spelled(""),
}
"""Classes of Python whose call no trace shows: methods that they call."""
