"""What training frameworks do by themselves: Lightning, torchmetrics, transformers, datasets. A part of `Module`.

Sources: the documentation of Lightning 2 (`Trainer`, "Effective training techniques"), of torchmetrics, of
transformers (`TrainingArguments`) and of datasets (`Dataset.map`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.scopes import method_of
from torchlint.semantic.data import datasets
from torchlint.semantic.device.host_reads import scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.values import params
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.inferred import inferred

if TYPE_CHECKING:
    pass

_ARGUMENTS = frozenset(
    (
        "transformers.TrainingArguments transformers.training_args.TrainingArguments "
        "transformers.Seq2SeqTrainingArguments transformers.training_args_seq2seq.Seq2SeqTrainingArguments"
    ).split()
)
_LOGS = {"log": ("name", "value"), "log_dict": ("dictionary",)}


@question(yes="Lightning runs it for every batch, in {answer}()", no="Lightning does not run it for each batch")
def lightning_step(module: Module, node: cst.CSTNode) -> str | None:
    """Return the name of the LightningModule's method that runs `node` for every batch, or None."""
    heat = heat_of(module, node)
    if not heat.hot or not in_lightning(module, node):
        return None
    role = heat.why[-1].node if heat.why else None
    role = role if isinstance(role, cst.FunctionDef) else module.function(node)
    return role.name.value if role is not None else None


@question(yes="`{answer}` logs the value", no="self.log is not handed the value")
def logged_by(module: Module, value: cst.BaseExpression) -> cst.Call | None:
    """Return the ``self.log(name, value)`` or ``self.log_dict({name: value})`` that is handed `value`, or None."""
    above = module.parent(value)
    if isinstance(above, cst.DictElement) and above.value is value:
        holder = module.parent(above)
        above = module.parent(holder) if holder is not None else None
        expected = "log_dict"
    else:
        expected = "log"
    call = module.parent(above) if isinstance(above, cst.Arg) else None
    match call:
        case cst.Call(func=cst.Attribute(value=cst.Name("self"), attr=cst.Name(value=name))) if name == expected:
            params = _LOGS[name]
            given = above.keyword.value if isinstance(above, cst.Arg) and above.keyword is not None else None
            place = params.index(given) if given in params else call.args.index(above) if given is None else -1
            return call if place == len(params) - 1 and in_lightning(module, call) else None
    return None


@question(yes="`{0}` is a torchmetrics metric", no="`{0}` is not known to be a torchmetrics metric")
def metric_of(module: Module, node: cst.BaseExpression) -> cst.Call | None:
    """Return the one call of a torchmetrics class that makes what a name or ``self.name`` holds, or None."""
    made: list[cst.CSTNode] = []
    if isinstance(node, cst.Name):
        definition = sole_definition(module, node)
        made = [definition] if definition is not None else []
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        cls = module.class_of(node)
        found = params.self_assignments(module.tree, cls) if cls is not None else {}
        made = found.get(node.attr.value, [])
    call = made[0] if len(made) == 1 else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "clone":
        return metric_of(module, call.func.value)
    name = (module.name(call.func) or "") if isinstance(call, cst.Call) else ""
    is_class = name.startswith("torchmetrics.") and name.rpartition(".")[2][:1].isupper()
    return call if isinstance(call, cst.Call) and is_class and ".functional." not in name else None


@question(yes="the value chooses what the host does", no="no condition reads the value")
def steers(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a condition reads an expression, itself or by its name: the value chooses what the host does."""
    if _in_test(module, node):
        return True
    bound = module.small_statement(node)
    target = bound.targets[0].target if isinstance(bound, cst.Assign) else None
    if not isinstance(target, cst.Name):
        return False
    return any(_in_test(module, read) for read in reads_of(module, module.function(node) or module.root, target.value))


@question(yes="the copy only serves a scalar read", no="the copy is not for a scalar read")
def read_as_number(module: Module, copy: cst.Call) -> bool:
    """Say whether a copy to the host only serves a scalar read: ``t.cpu().item()``, ``float(t.cpu())``."""
    for above in module.ancestors(copy):
        if isinstance(above, cst.Call) and scalar_reads(module, above):
            return True
        if not isinstance(above, (cst.Attribute, cst.Call, cst.Arg)):
            return False
    return False


@question(yes="the file streams its dataset", no="the file does not stream its dataset")
def streams_rows(module: Module) -> bool:
    """Whether the file streams a dataset of the datasets library (``streaming=True``)."""
    calls = module.nodes(cst.Call)
    given = (keyword_argument(module, call, "streaming") for call in calls)
    return any(isinstance(value, cst.Name) and value.value == "True" for value in given)


@question(yes="`{0}` makes TrainingArguments", no="`{0}` makes no TrainingArguments")
def makes_training_arguments(module: Module, call: cst.Call) -> bool:
    """Say whether a call makes the ``TrainingArguments`` of a transformers ``Trainer``."""
    return module.name(call.func) in _ARGUMENTS


@question(yes="what the Trainer loads is costly", no="nothing in the file shows that what the Trainer loads is costly")
def costly_for_trainer(module: Module) -> bool:
    """Say whether what this file gives a transformers ``Trainer`` to load reads, decodes, tokenises or augments."""
    for call in module.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("set_transform", "with_transform"):
            return True
        dataset, collate = (keyword_argument(module, call, name) for name in ("train_dataset", "data_collator"))
        if dataset is not None and datasets.dataset_cost(module, dataset) is True:
            return True
        made = inferred(module, collate).node if collate is not None else None
        if isinstance(made, cst.ClassDef):
            made = method_of(module, made, "__call__")
        if isinstance(made, (cst.FunctionDef, cst.Lambda)) and datasets.work(module, made) is True:
            return True
    return False


def _in_test(module: Module, node: cst.CSTNode) -> bool:
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (cst.If, cst.While, cst.IfExp)):
            return child is above.test
        if isinstance(above, cst.BaseStatement):
            return False
        child = above
    return False
