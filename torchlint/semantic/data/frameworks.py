"""What training frameworks do by themselves: Lightning, torchmetrics, transformers, datasets. A part of `Module`.

Sources: the documentation of Lightning 2 (`Trainer`, "Effective training techniques"), of torchmetrics, of
transformers (`TrainingArguments`) and of datasets (`Dataset.map`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.data import datasets, token_maps
from torchlint.semantic.data.token_maps import TokenMap
from torchlint.semantic.part import Part
from torchlint.semantic.values import params

if TYPE_CHECKING:
    pass

_TRAINERS = frozenset(
    (
        "lightning.Trainer lightning.pytorch.Trainer lightning.pytorch.trainer.Trainer "
        "lightning.pytorch.trainer.trainer.Trainer"
    ).split()
)
_ARGUMENTS = frozenset(
    (
        "transformers.TrainingArguments transformers.training_args.TrainingArguments "
        "transformers.Seq2SeqTrainingArguments transformers.training_args_seq2seq.Seq2SeqTrainingArguments"
    ).split()
)
_LOGS = {"log": ("name", "value"), "log_dict": ("dictionary",)}


class Frameworks(Part):
    """The part of `Module` that knows what a framework does around the user's code."""

    # -- Lightning ----------------------------------------------------------------------------------------------

    def lightning_trainer(self, call: cst.Call) -> bool:
        """Say whether a call makes a Lightning ``Trainer``."""
        return self._module.name(call.func) in _TRAINERS

    @property
    def trains_on_cpu(self) -> bool:
        """Whether every Lightning ``Trainer`` of the file is told to stay on the CPU."""
        module = self._module
        every = [c for c in module.nodes(cst.Call) if isinstance(c, cst.Call) and self.lightning_trainer(c)]
        return bool(every) and all(string(module.keyword(call, "accelerator")) == "cpu" for call in every)

    def lightning_step(self, node: cst.CSTNode) -> str | None:
        """Return the name of the LightningModule's method that runs `node` for every batch, or None."""
        module = self._module
        heat = module.heat(node)
        if not heat.hot or not module.is_lightning(node):
            return None
        role = heat.why[-1].node if heat.why else None
        role = role if isinstance(role, cst.FunctionDef) else module.function(node)
        return role.name.value if role is not None else None

    def logged_by(self, value: cst.BaseExpression) -> cst.Call | None:
        """Return the ``self.log(name, value)`` or ``self.log_dict({name: value})`` that is handed `value`, or None."""
        module = self._module
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
                return call if place == len(params) - 1 and module.is_lightning(call) else None
        return None

    # -- torchmetrics -------------------------------------------------------------------------------------------

    def metric(self, node: cst.BaseExpression) -> cst.Call | None:
        """Return the one call of a torchmetrics class that makes what a name or ``self.name`` holds, or None."""
        module = self._module
        made: list[cst.CSTNode] = []
        if isinstance(node, cst.Name):
            definition = module.definition(node)
            made = [definition] if definition is not None else []
        elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
            cls = module.class_of(node)
            found = params.self_assignments(module.tree, cls) if cls is not None else {}
            made = found.get(node.attr.value, [])
        call = made[0] if len(made) == 1 else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "clone":
            return self.metric(call.func.value)
        name = (module.name(call.func) or "") if isinstance(call, cst.Call) else ""
        is_class = name.startswith("torchmetrics.") and name.rpartition(".")[2][:1].isupper()
        return call if isinstance(call, cst.Call) and is_class and ".functional." not in name else None

    # -- reads --------------------------------------------------------------------------------------------------

    def steers(self, node: cst.CSTNode) -> bool:
        """Say whether a condition reads an expression, itself or by its name: the value chooses what the host does."""
        module = self._module
        if self._in_test(node):
            return True
        bound = module.small_statement(node)
        target = bound.targets[0].target if isinstance(bound, cst.Assign) else None
        if not isinstance(target, cst.Name):
            return False
        return any(self._in_test(read) for read in module.reads(module.function(node) or module.root, target.value))

    def _in_test(self, node: cst.CSTNode) -> bool:
        child = node
        for above in self._module.ancestors(node):
            if isinstance(above, (cst.If, cst.While, cst.IfExp)):
                return child is above.test
            if isinstance(above, cst.BaseStatement):
                return False
            child = above
        return False

    def read_as_number(self, copy: cst.Call) -> bool:
        """Say whether a copy to the host only serves a scalar read: ``t.cpu().item()``, ``float(t.cpu())``."""
        module = self._module
        for above in module.ancestors(copy):
            if isinstance(above, cst.Call) and module.scalar_reads(above):
                return True
            if not isinstance(above, (cst.Attribute, cst.Call, cst.Arg)):
                return False
        return False

    # -- datasets -----------------------------------------------------------------------------------------------

    def token_map(self, call: cst.Call) -> TokenMap | None:
        """Return what is known of a ``dataset.map(function)`` that hands rows to a tokenizer, or None."""
        return token_maps.token_map(self._module, call)

    @property
    def streams_rows(self) -> bool:
        """Whether the file streams a dataset of the datasets library (``streaming=True``)."""
        calls = (c for c in self._module.nodes(cst.Call) if isinstance(c, cst.Call))
        given = (self._module.keyword(call, "streaming") for call in calls)
        return any(isinstance(value, cst.Name) and value.value == "True" for value in given)

    # -- transformers -------------------------------------------------------------------------------------------

    def training_arguments(self, call: cst.Call) -> bool:
        """Say whether a call makes the ``TrainingArguments`` of a transformers ``Trainer``."""
        return self._module.name(call.func) in _ARGUMENTS

    def costly_for_trainer(self) -> bool:
        """Say whether what this file gives a transformers ``Trainer`` to load reads, decodes, tokenises or augments."""
        module = self._module
        for call in module.nodes(cst.Call):
            assert isinstance(call, cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("set_transform", "with_transform"):
                return True
            dataset, collate = (module.keyword(call, name) for name in ("train_dataset", "data_collator"))
            if dataset is not None and datasets.dataset_cost(module, dataset) is True:
                return True
            made = module.value(collate).node if collate is not None else None
            if isinstance(made, cst.ClassDef):
                made = module.method(made, "__call__")
            if isinstance(made, (cst.FunctionDef, cst.Lambda)) and datasets.work(module, made) is True:
                return True
        return False


def string(node: cst.CSTNode | None) -> str | None:
    """Return the text of a string literal, or None."""
    raw = node.raw_value if isinstance(node, cst.SimpleString) else None
    return raw if isinstance(raw, str) else None
