"""Sees the DataLoaders of a program, and gives them another number of workers."""

from __future__ import annotations

import functools
import inspect
from typing import Any

_OF_WORKERS = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
"""Arguments that a loader without workers refuses."""


def override(count: int | None) -> list[dict[str, Any]]:
    """Have every DataLoader that is made from now on use this number of workers; its own where
    None.

    Returns:
        What is known of each, in the order in which they were made: grows with them. ``workers`` is
        the number that the program gave, ``dataset`` its class, ``iterable`` whether that is an
        IterableDataset, ``shards`` whether such a one asks which worker it is in.
    """
    from torch.utils.data import DataLoader

    made: list[dict[str, Any]] = []
    original = DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def initialised(this: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(this, *args, **kwargs)
        except TypeError:
            original(this, *args, **kwargs)  # raises as it does without this
            return
        made.append(_described(given.arguments))
        if count is not None:
            given.arguments["num_workers"] = count
        if count == 0:
            for name in _OF_WORKERS:
                given.arguments.pop(name, None)
        original(*given.args, **given.kwargs)

    DataLoader.__init__ = initialised
    return made


def _described(given: dict[str, Any]) -> dict[str, Any]:
    from torch.utils.data import IterableDataset

    dataset = given.get("dataset")
    code = getattr(getattr(type(dataset), "__iter__", None), "__code__", None)
    return {
        "workers": given.get("num_workers", 0),
        "dataset": type(dataset).__name__,
        "iterable": isinstance(dataset, IterableDataset),
        "shards": code is not None and "get_worker_info" in code.co_names,
    }
