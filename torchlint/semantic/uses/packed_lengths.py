"""Which tensors become the lengths of sequences, which torch wants on the host: to pack them, and
for CTC losses, which copy them there."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.tree import Function
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.definitions_behind import functions, method
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import Value

_PACKERS = (
    "torch.nn.utils.rnn.pack_padded_sequence",
    "torch.nn.utils.rnn.PackedSequence",
)
_CTC = ("torch.nn.CTCLoss", "torch.nn.functional.ctc_loss")


@question(
    yes="`{0}` becomes the lengths of sequences, which torch wants on the host",
    no="`{0}` does not become the lengths of sequences that torch wants on the host",
)
def becomes_lengths(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an expression is given to ``pack_padded_sequence`` or a CTC loss as its lengths,
    here or by a function or method of the project."""
    above = module.parent(node)
    while isinstance(above, (cst.Attribute, cst.Call)):
        node, above = above, module.parent(above)  # ``lengths.long().to(device)``
    match above:
        case cst.Arg():
            call = module.parent(above)
            return isinstance(call, cst.Call) and _becomes_lengths_there(module, call, above)
        case cst.Assign([cst.AssignTarget(cst.Name(name))]):
            return any(becomes_lengths(module, read) for read in readers_of(module, above, name))
    return False


def _becomes_lengths_there(module: Module, call: cst.Call, arg: cst.Arg) -> bool:
    keyword = arg.keyword.value if arg.keyword is not None else None
    position = list(call.args).index(arg)
    if module.name(call.func) in _PACKERS:
        return keyword in ("lengths", "batch_sizes") or (keyword is None and position == 1)
    if arg.star:
        return False
    if module.name(call.func) in _CTC or inferred(module, call.func).name in _CTC:
        return position in (2, 3) if keyword is None else keyword.endswith("_lengths")
    return any(
        becomes_lengths(where, read)
        for where, function in _reached(module, call)
        if isinstance(function, cst.FunctionDef)
        for name in _parameter(function, keyword, position)
        for read in reads_of(where, function, name)
    )


def _reached(module: Module, call: cst.Call) -> list[tuple[Module, Function]]:
    """Return the functions that a call runs, each with its file; an object that is called, as
    ``self(x)``, runs its class's forward."""
    found = functions(module, call)
    if found:
        return found
    cls = module.class_of(call)
    match call.func:
        case cst.Name("self") if cls is not None:
            run = method(module, Value("object", node=cls), "forward")
        case cst.Attribute(receiver, cst.Name(name)):
            run = method(module, inferred(module, receiver), name) or method(
                module, inferred(module, call.func), "forward"
            )
        case _:
            run = method(module, inferred(module, call.func), "forward")
    return [run] if run is not None else []


def _parameter(function: cst.FunctionDef, keyword: str | None, position: int) -> list[str]:
    """Return the name under which a function gets an argument, if it does."""
    if keyword is not None:
        return [keyword]
    names = [each.name.value for each in function.params.params]
    names = names[1:] if names[:1] == ["self"] else names
    return names[position : position + 1]
