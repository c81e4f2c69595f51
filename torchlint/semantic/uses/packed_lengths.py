"""Which tensors become the lengths of sequences, which torch wants on the host: to pack them, and
for CTC losses, which copy them there."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.tree import keyword_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred

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
    above = module.parent(module.chain_around(node))  # ``lengths.long().to(device)``
    match above:
        case cst.Arg() if isinstance(call := module.parent(above), cst.Call):
            return _becomes_lengths_there(module, call, above)
        case cst.Assign([cst.AssignTarget(cst.Name(name))]):
            return any(becomes_lengths(module, read) for read in readers_of(module, above, name))
    return False


def _becomes_lengths_there(module: Module, call: cst.Call, arg: cst.Arg) -> bool:
    if module.name(call.func) in _PACKERS:
        second = arg.keyword is None and list(call.args).index(arg) == 1
        return second or keyword_of(arg) in ("lengths", "batch_sizes")
    if arg.star:
        return False
    if module.name(call.func) in _CTC or inferred(module, call.func).name in _CTC:
        keyword = keyword_of(arg)
        last_two = arg.keyword is None and list(call.args).index(arg) in (2, 3)
        return last_two or (keyword is not None and keyword.endswith("_lengths"))
    return any(
        becomes_lengths(where, read)
        for where, function in reached(module, call)
        if isinstance(function, cst.FunctionDef)
        for name, given in where.bind(function, call).items()
        if given is arg.value
        for read in reads_of(where, function, name)
    )
