"""Facts about torch, NumPy, Lightning, Accelerate and transformers, as tables. Data only.

Sources: torch 2.13 signatures (checked by running, see the catalogue's [V] marks), the PyTorch documentation pages
named beside the tables, and the frameworks' own documentation.
"""

from __future__ import annotations

DATALOADER = "torch.utils.data.DataLoader"

_CANONICAL = {
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataset.TensorDataset": "torch.utils.data.TensorDataset",
    "torch.utils.data.dataset.Dataset": "torch.utils.data.Dataset",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.modules.Module": "torch.nn.Module",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
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
        ("tensor zeros ones empty full arange cat stack randn rand from_numpy no_grad device Tensor").split()
    ),
    "torch.nn": frozenset(("Module Linear Conv2d BatchNorm2d Parameter Sequential ModuleList DataParallel").split()),
    "torch.utils.data": frozenset(["DataLoader", "Dataset", "TensorDataset", "Subset", "IterableDataset"]),
}


def exports(package: str, name: str) -> bool:
    """Say whether ``from package import *`` is known to bind `name`."""
    return name in _STAR_EXPORTS.get(package, ())


# Factories that accept device= and those of them whose result does not depend on the device (rules.md TL102).
FACTORIES = frozenset(
    "torch." + n
    for n in (
        "rand randn randint randperm zeros ones full empty arange linspace logspace eye range tril_indices "
        "triu_indices empty_strided empty_permuted rand_like randn_like randint_like zeros_like ones_like "
        "full_like empty_like hann_window hamming_window blackman_window bartlett_window kaiser_window "
        "scalar_tensor sparse_coo_tensor normal fft.fftfreq fft.rfftfreq"
    ).split()
)
DATA_FACTORIES = frozenset(
    "torch." + n
    for n in (
        "tensor as_tensor asarray from_numpy frombuffer Tensor FloatTensor LongTensor DoubleTensor IntTensor "
        "ByteTensor BoolTensor HalfTensor"
    ).split()
)
NEW_METHODS = frozenset(["new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new"])

# Attributes and methods of a tensor whose value lives on the host and costs no wait.
HOST_ATTRIBUTES = frozenset(
    (
        "shape ndim dtype device requires_grad is_leaf is_cuda grad_fn names layout itemsize nbytes is_sparse "
        "is_quantized is_meta is_contiguous element_size storage_offset stride"
    ).split()
)
HOST_METHODS = frozenset(
    (
        "size dim numel nelement ndimension stride is_contiguous is_floating_point is_complex element_size "
        "data_ptr get_device storage_offset type dim_order is_pinned is_shared has_names __len__ "
        "register_hook is_signed"
    ).split()
)
# Methods that only tensors have: a name on which they are called is a tensor.
TENSOR_ONLY_METHODS = frozenset(
    (
        "detach detach_ backward requires_grad_ unsqueeze unsqueeze_ permute contiguous masked_fill "
        "masked_fill_ scatter scatter_ scatter_add_ gather index_select index_add_ new_zeros new_ones "
        "new_tensor new_full clamp clamp_ clamp_min clamp_max expand expand_as view_as type_as "
        "is_floating_point numel nelement softmax log_softmax sigmoid tanh relu bmm addmm matmul mm cumsum "
        "narrow chunk masked_select topk argsort nonzero unbind transpose_ zero_ fill_ copy_ mul_ add_ sub_ "
        "div_ register_hook retain_grad is_contiguous half bfloat16 norm pow logsumexp logical_not "
        "logical_and eq ne gt lt ge le pin_memory item"
    ).split()
)
# Functions under torch that do not return a tensor.
NOT_TENSOR = frozenset(
    "torch." + n
    for n in (
        "is_tensor is_floating_point is_complex is_grad_enabled get_default_dtype set_default_dtype "
        "set_default_device manual_seed seed initial_seed load save compile no_grad enable_grad "
        "inference_mode set_grad_enabled device Generator get_rng_state set_rng_state numel set_num_threads "
        "get_num_threads set_printoptions use_deterministic_algorithms typename finfo iinfo autocast Size "
        "set_float32_matmul_precision dtype Tensor broadcast_shapes result_type equal allclose is_storage jit "
        "export version vmap func compiler overrides package hub onnx are_deterministic_algorithms_enabled"
    ).split()
)
# The kind of number that a dtype holds, in the words of `Value.dtype`.
DTYPE_KINDS = {
    f"torch.{name}": kind
    for kind, names in {
        "bool": "bool",
        "int": "int int8 int16 int32 int64 long short uint8",
        "float": "float float32",
        "double": "double float64",
        "half": "half float16 bfloat16",
    }.items()
    for name in names.split()
}
BOOL_RESULT = frozenset(
    ("torch.equal", "torch.allclose", "torch.is_tensor", "torch.is_floating_point", "torch.is_complex")
)
# torch.* reductions and tensor methods whose result is 0-dim when called without dim.
REDUCTIONS = frozenset(
    (
        "sum mean max min prod std var norm median amax amin any all nansum nanmean logsumexp dist argmax "
        "argmin count_nonzero"
    ).split()
)
BOOL_METHODS = frozenset(
    (
        "any all eq ne gt lt ge le isnan isinf isfinite logical_and logical_or logical_not logical_xor bool "
        "isclose isin signbit"
    ).split()
)
INT_METHODS = frozenset(("argmax argmin argsort long int nonzero count_nonzero bincount").split())
LOSS_FUNCTIONS = frozenset(
    "torch.nn.functional." + n
    for n in (
        "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
        "binary_cross_entropy_with_logits kl_div ctc_loss hinge_embedding_loss margin_ranking_loss "
        "cosine_embedding_loss triplet_margin_loss poisson_nll_loss gaussian_nll_loss multi_margin_loss "
        "soft_margin_loss multilabel_margin_loss multilabel_soft_margin_loss"
    ).split()
)

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
STEP_METHODS = frozenset(("training_step", "validation_step", "test_step", "predict_step"))

# Whose result may be, or share memory with, the tensor or array itself (``to`` and the casts where nothing changes).
ALIASING_METHODS = frozenset(
    (
        "view view_as reshape reshape_as flatten unflatten ravel transpose t permute movedim moveaxis swapaxes "
        "swapdims squeeze unsqueeze expand expand_as broadcast_to narrow select split split_with_sizes "
        "tensor_split chunk hsplit vsplit dsplit unbind unfold diagonal contiguous detach to cpu cuda type type_as "
        "float double half bfloat16 long int short bool byte char numpy resolve_conj resolve_neg adjoint positive "
        "requires_grad_ detach_ pin_memory"
    ).split()
)
ALIASING_ATTRIBUTES = frozenset(("data", "T", "mT", "H", "mH", "real", "imag"))
# Whose result is new, and which leave the tensor as it is.
COMPUTING_METHODS = frozenset(
    (
        "abs sum mean max min std var prod norm median argmax argmin argsort topk sort cumsum cumprod exp expm1 log "
        "log2 log10 log1p sqrt rsqrt square pow neg sign round floor ceil trunc clamp clamp_min clamp_max clip relu "
        "sigmoid tanh softmax log_softmax logsumexp add sub mul div matmul mm bmm dot eq ne lt le gt ge equal "
        "allclose isclose logical_and logical_or logical_not logical_xor isnan isinf isfinite any all masked_fill "
        "masked_select gather index_select scatter scatter_add repeat repeat_interleave tile flip roll clone nonzero "
        "unique count_nonzero bincount histc isin new_zeros new_ones new_full new_empty new_tensor true_divide "
        "floor_divide remainder fmod reciprocal sin cos tan atan erf nan_to_num lerp amax amin take quantile"
    ).split()
)
COMPUTING_FUNCTIONS = frozenset(
    [
        *(f"torch.{name}" for name in COMPUTING_METHODS if not name.startswith("new_")),
        *(
            f"torch.{name}"
            for name in (
                "stack cat hstack vstack dstack column_stack einsum where zeros_like ones_like full_like empty_like "
                "rand_like randn_like tensor Tensor FloatTensor LongTensor maximum minimum bernoulli cdist outer "
                "cosine_similarity"
            ).split()
        ),
        *LOSS_FUNCTIONS,
        *(
            f"torch.nn.functional.{name}"
            for name in (
                "softmax log_softmax one_hot normalize pad interpolate logsigmoid softplus gelu cosine_similarity "
                "pairwise_distance"
            ).split()
        ),
    ]
)
ALIASING_FUNCTIONS = frozenset(
    [
        *(f"torch.{name}" for name in "as_tensor asarray from_numpy atleast_1d atleast_2d".split()),
        *(f"torch.{name}" for name in "flatten ravel reshape transpose t permute squeeze unsqueeze".split()),
        *(f"torch.{name}" for name in "movedim swapaxes narrow select split chunk unbind diagonal".split()),
        "torch.autograd.Variable",
        "numpy.asarray",
    ]
)
COPYING_NUMPY = frozenset(
    f"numpy.{name}" for name in "array sum mean std var max min median argmax argmin unique concatenate stack".split()
)
# In-place methods after which a tensor has another shape, or other storage.
RESHAPING_METHODS = frozenset(
    "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ resize_ resize_as_ set_ as_strided_ sparse_resize_".split()
)
