"""Facts about torch, NumPy, Lightning, Accelerate and transformers, as tables. Data only.

Sources: torch 2.13 signatures (checked by running, see the catalogue's [V] marks), the PyTorch
documentation pages named beside the tables, and the frameworks' own documentation.
"""

from __future__ import annotations

DATALOADER = "torch.utils.data.DataLoader"
TENSOR_DATASET = "torch.utils.data.TensorDataset"
GRAPH_LOADERS = frozenset(("torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader"))
"""Loaders derived from it that join graphs to a batch (torch_geometric 2.6, loader/dataloader.py:
further keywords are its own)."""
SAMPLING_LOADERS = frozenset(
    f"torch_geometric.loader.{name}"
    for name in "NeighborLoader LinkNeighborLoader NeighborSampler HGTLoader".split()
)
"""Loaders derived from it that draw a part of a graph for each batch (torch_geometric 2.6, loader/:
`NodeLoader`, `LinkLoader` and `NeighborSampler` hand their further keywords to it)."""

CALLED_BY_TORCH = frozenset(
    (
        "forward train eval extra_repr state_dict load_state_dict parameters named_parameters"
        " buffers children modules zero_grad to cuda cpu half float double apply reset_parameters"
        " get_extra_state set_extra_state set_epoch _apply _load_from_state_dict"
        " _save_to_state_dict"
    ).split()
)
"""Methods of a network, and of a sampler, that torch or a trainer calls by themselves."""

_CANONICAL = {
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataset.TensorDataset": "torch.utils.data.TensorDataset",
    "torch.utils.data.dataset.Dataset": "torch.utils.data.Dataset",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": (
        "torch.nn.parallel.DistributedDataParallel"
    ),
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.modules.Module": "torch.nn.Module",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
    "torch.nn.parameter.Buffer": "torch.nn.Buffer",
    "torch.nn.modules.loss._Loss": "torch.nn.Module",
    "torch.nn.modules.loss._WeightedLoss": "torch.nn.Module",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.grad_mode.no_grad": "torch.no_grad",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.cuda.memory.empty_cache": "torch.cuda.empty_cache",
    "torch.cuda.amp.autocast_mode.autocast": "torch.cuda.amp.autocast",
    "torch.cuda.amp.autocast_mode.custom_fwd": "torch.cuda.amp.custom_fwd",
    "torch.cuda.amp.autocast_mode.custom_bwd": "torch.cuda.amp.custom_bwd",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.concat": "torch.cat",
    "torch.concatenate": "torch.cat",
    "torch.autograd.variable.Variable": "torch.autograd.Variable",
}
_PREFIXES = (
    ("pytorch_lightning.", "lightning.pytorch."),
    ("torch.functional.", "torch."),
    ("numpy.core.", "numpy."),
)


def canonical(name: str) -> str:
    """Return the documented spelling of a dotted name that torch or a framework exports twice."""
    found = _CANONICAL.get(name)
    if found is not None:
        return found
    if name == "pytorch_lightning":
        return "lightning.pytorch"
    for prefix, target in _PREFIXES:
        if name.startswith(prefix):
            return target + name[len(prefix) :]
    return name


_STAR_EXPORTS = {
    "torch": frozenset(
        (
            "tensor zeros ones empty full arange cat stack randn rand from_numpy no_grad device "
            "Tensor"
        ).split()
    ),
    "torch.nn": frozenset(
        ("Module Linear Conv2d BatchNorm2d Parameter Sequential ModuleList DataParallel").split()
    ),
    "torch.utils.data": frozenset(
        ["DataLoader", "Dataset", "TensorDataset", "Subset", "IterableDataset"]
    ),
}

MOVES = frozenset(("to", "cuda"))
"""Methods that bring a tensor or a module to a device."""
WRAPPERS = frozenset(("torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"))
"""Classes of which an object runs the module that it is given, and keeps it as ``module``."""


_COUNTING = frozenset("dict enumerate isinstance len list range reversed sorted tuple zip".split())
_OWN_COUNTING = ("six.moves", "past.builtins", "future.builtins")


def may_export(package: str, name: str) -> bool:
    """Say whether ``from package import *``, of a package that nobody has read, may bind `name`:
    no library but a few gives a meaning of its own to ``range`` or ``len``; to ``max`` many do."""
    own_range = name == "range" and package in ("torch", "tensorflow")
    return own_range or name not in _COUNTING or package in _OWN_COUNTING


def exports(package: str, name: str) -> bool:
    """Say whether ``from package import *`` is known to bind `name`."""
    return name in _STAR_EXPORTS.get(package, ())


NO_GRAD = frozenset(("torch.no_grad", "torch.inference_mode", "torch.autograd.inference_mode"))
MODULE_BASES = frozenset(
    (
        "torch.nn.Module",
        "lightning.pytorch.LightningModule",
        "lightning.LightningModule",
        "transformers.PreTrainedModel",
        "lightning.pytorch.core.LightningModule",
        "torch.jit.ScriptModule",
        "transformers.modeling_utils.PreTrainedModel",
    )
)
LIGHTNING_BASES = frozenset(
    (
        "lightning.pytorch.LightningModule",
        "lightning.LightningModule",
        "lightning.pytorch.core.LightningModule",
        "lightning.pytorch.core.lightning.LightningModule",
    )
)
DATASET_BASES = frozenset(("torch.utils.data.Dataset", "torch.utils.data.IterableDataset"))
SPARSE_OR_SHARDED = frozenset(
    (
        "is_sparse coalesce sparse_mask DTensor FSDP FullyShardedDataParallel fully_shard to_local "
        "full_tensor"
    ).split()
)
"""Words of code that knows sparse gradients, or shards of a model."""
STEP_METHODS = frozenset(("training_step", "validation_step", "test_step", "predict_step"))
HOOKS_OF_A_STEP: dict[str, tuple[str, str]] = {
    "boilr": ("forward_pass get_metrics_dict", ""),
    "catalyst": ("handle_batch on_batch_start on_batch_end", ""),
    "detectron2": ("run_step before_step after_step", ""),
    "fairseq": ("train_step", "valid_step"),
    "fastai": ("before_batch after_pred after_loss before_backward after_step after_batch", ""),
    "keras": ("train_step", ""),
    "mmengine": (
        "before_train_iter after_train_iter train_step",
        "before_val_iter after_val_iter before_test_iter after_test_iter val_step",
    ),
    "nnunetv2": ("train_step", ""),
    "pytorch_accelerated": ("calculate_train_batch_loss", "calculate_eval_batch_loss"),
    "skorch": ("train_step train_step_single get_loss on_batch_end", "evaluation_step"),
    "speechbrain": (
        "compute_forward compute_objectives fit_batch on_fit_batch_end",
        "evaluate_batch",
    ),
    "torchtnt": ("train_step", "eval_step"),
}
"""By the package whose class a class derives from: the methods that its loop calls for each batch
of training, and of an evaluation alone (the documentation of each)."""
