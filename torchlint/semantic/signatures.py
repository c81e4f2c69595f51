"""Positional parameters of the calls whose arguments rules read, from torch 2.13's signatures. Data only."""

from __future__ import annotations

SIGNATURES: dict[str, tuple[str, ...]] = {
    "torch.utils.data.DataLoader": (
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
        "generator",
    ),
    "torch.cuda.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.cpu.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.cuda.amp.GradScaler": (
        "init_scale",
        "growth_factor",
        "backoff_factor",
        "growth_interval",
        "enabled",
    ),
    "torch.cpu.amp.GradScaler": (
        "init_scale",
        "growth_factor",
        "backoff_factor",
        "growth_interval",
        "enabled",
    ),
    "torch.cuda.amp.custom_fwd": ("fwd",),
    "torch.cuda.amp.custom_bwd": ("bwd",),
    "torch.nn.DataParallel": ("module", "device_ids", "output_device", "dim"),
    "torch.full": ("size", "fill_value"),
    "torch.cat": ("tensors", "dim"),
    "torch.stack": ("tensors", "dim"),
    "torch.vstack": ("tensors",),
    "torch.hstack": ("tensors",),
    "Tensor.to": ("device", "dtype", "non_blocking", "copy"),
    "Tensor.cuda": ("device", "non_blocking"),
}
