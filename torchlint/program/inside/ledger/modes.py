"""The two modes that follow the virtual device through a program.

The function mode sees what Python asks for: factories with ``device=``, and whether a function got
CUDA tensors. The dispatch mode sees every operation, those of the backward pass and of optimizers
too; it carries the tags on and counts. Both act per thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .events import Events
from .factories import masks_made
from .operations import Operations
from .tags import Use, elsewhere, is_cuda, is_pinned, names_cuda, pin, set_cuda, tensors_in
from .transfers import direct, record_copy

_HOST: Any = torch.device("cpu")
_no_function: Any = torch._C.DisableTorchFunction

_MIXING = frozenset({torch.ctc_loss, torch.nn.functional.ctc_loss})
"""Functions that take host tensors next to CUDA tensors: lengths."""
_HOST_CHECKS = frozenset(
    {torch.quantile, torch.Tensor.quantile, torch.nanquantile, torch.Tensor.nanquantile}
)
"""Functions that check values of tensors on the host, and nothing on a GPU: here all tensors lie on
the host (``quantile_checks`` in ``aten/src/ATen/native/Sorting.cpp``)."""
_INDEXING = frozenset({torch.Tensor.__getitem__, torch.Tensor.__setitem__})


class FunctionMode(TorchFunctionMode):
    """Redirects factories to host memory and remembers what they were asked for."""

    def __init__(self, events: Events, originals: dict[Any, Any], operations: Operations) -> None:
        super().__init__()
        self._events = events
        self._factories = operations.factories
        self._originals = originals

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._events.stopped:
            return func(*args, **kwargs)
        func = self._originals.get(
            func, func
        )  # PyTorch looks methods up by name, and finds the replaced ones
        factory = self._factories.get(func)
        if factory is not None:
            return factory(self._events, func, args, kwargs)
        if func in _INDEXING:
            args = masks_made(self._events, args)
        now = self._events.now
        before = now.ambient, now.mixed, now.host_check
        # (has CUDA tensors, (and host tensors with dimensions, and numbers in host memory)).
        cuda = host = number = False
        with _no_function():
            for value in (args, kwargs):
                for tensor in tensors_in(value):
                    if is_cuda(tensor):
                        cuda = True
                    elif tensor.dim():
                        host = True
                    else:
                        number = True
        now.ambient, now.mixed = cuda, (cuda and host, cuda and number)
        if func in _MIXING:
            now.mixed = (False, False)
        now.host_check = func in _HOST_CHECKS
        try:
            return func(*args, **kwargs)
        finally:
            now.ambient, now.mixed, now.host_check = before


class DispatchMode(TorchDispatchMode):
    """Carries device tags through every operation, and counts syncs, copies and mixed devices."""

    supports_higher_order_operators = True

    def __init__(self, events: Events, operations: Operations) -> None:
        super().__init__()
        self._events = events
        self._operations = operations
        self._returns: dict[Any, tuple[str, ...]] = {}
        self._lists: dict[Any, tuple[int, ...]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep PyTorch from importing its compiler at the first operation."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs) if kwargs else {}
        if self._events.stopped:
            return func(*args, **kwargs)
        if isinstance(func, torch._ops.HigherOrderOperator):
            return _whole(func, args, kwargs)
        with _no_function():
            try:
                cuda, pinned = self._before(func, args, kwargs)
            except Exception as error:
                self._events.gap(f"{func}: {type(error).__name__}: {error}")
                cuda, pinned = False, False
        result = func(*args, **kwargs)
        # That the tensors of a list were written, as an optimizer does with ``foreach``: under a
        # dispatch mode PyTorch does not, and a backward pass that needs the old ones would go
        # well here alone.
        if func not in self._lists:
            arguments = enumerate(func._schema.arguments)
            self._lists[func] = tuple(at for at, each in arguments if _writes_list(each))
        for at in self._lists[func]:
            for tensor in args[at] if at < len(args) else ():
                if not tensor.is_inference():  # these have no version
                    torch.autograd.graph.increment_version(tensor)
        if cuda or pinned:
            with _no_function():
                self._tag(func, result, args, cuda)
        return result

    def _before(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, bool]:
        """Count what the call costs and turn it to the host; return where its results lie: (CUDA,
        pinned)."""
        name = func._schema.name
        tensors = list(tensors_in(args)) + list(tensors_in(kwargs))
        tags = [is_cuda(tensor) for tensor in tensors]
        some = True in tags
        if some:
            Use.lately = True
            self._count(name, args, kwargs, tensors, tags)
        pinned = bool(kwargs.get("pin_memory"))
        if pinned:
            kwargs["pin_memory"] = False
        device = kwargs.get("device")
        if device is None:
            # What is taken lies where it lay, wherever the positions do.
            return (tags[0] if name == "aten::index" else some), pinned
        if elsewhere(device):
            return False, False
        now = self._events.now
        if names_cuda(device):
            kwargs["device"] = _HOST
            if name == "aten::_to_copy" and not some:
                record_copy(
                    self._events,
                    args[0],
                    args[0],
                    to_device=True,
                    non_blocking=bool(kwargs.get("non_blocking")),
                    pinned=is_pinned(args[0]),
                )
            return True, pinned
        if now.requested is not None:
            return now.requested, pinned
        return some or (not tensors and now.ambient), pinned

    def _count(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        tensors: list[Any],
        tags: list[bool],
    ) -> None:
        if name == "aten::copy_":
            self._copy(args, kwargs, tags)
            return
        cost = self._operations.costs.get(name)
        if cost is not None and not self._events.now.host_check:
            cost(self._events, args, kwargs)
        host, number = self._events.now.mixed
        refused = host or (number and name in self._operations.strict)
        if refused and False in tags and name not in self._operations.mixes:
            # Note tensors of both sides, where the function that Python called was given both.
            # PyTorch's own code may make helper tensors that carry no tag; these are not the
            # program's.
            strict = name in self._operations.strict
            if any(
                not tag and (strict or tensor.dim())
                for tensor, tag in zip(tensors, tags, strict=True)
            ):
                self._events.add("mismatch", name.partition("::")[2])
                self._events.now.mixed = (False, False)

    def _copy(self, args: Sequence[Any], kwargs: dict[str, Any], tags: list[bool]) -> None:
        target, source = args[0], args[1]
        if len(tags) < 2 or tags[0] == tags[1]:
            return
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        host = source if tags[0] else target
        record_copy(
            self._events,
            source,
            target,
            to_device=tags[0],
            non_blocking=non_blocking,
            pinned=direct(host, target if tags[0] else source, non_blocking),
        )

    def _tag(self, func: Any, result: Any, args: Sequence[Any], cuda: bool) -> None:
        """Tag the results: new memory lies where the call runs, views where their base lies;
        written tensors stay."""
        kinds = self._returns.get(func)
        if kinds is None:
            kinds = self._returns[func] = tuple(
                _kind(func._schema, i) for i in range(len(func._schema.returns))
            )
        results = result if len(kinds) > 1 and isinstance(result, (tuple, list)) else (result,)
        base = bool(args) and isinstance(args[0], torch.Tensor) and is_cuda(args[0])
        for kind, value in zip(kinds, results):  # noqa: B905
            if kind == _FIXED or (kind == _VIEW and not base):
                continue
            for tensor in tensors_in(value):
                if cuda:
                    set_cuda(tensor, True)
                else:
                    pin(tensor)


def _writes_list(argument: Any) -> bool:
    alias = argument.alias_info
    return alias is not None and alias.is_write and str(argument.type) == "List[Tensor]"


_NEW, _VIEW, _FIXED = "new", "view", "fixed"
_HOST_RETURNS = {("aten::_pack_padded_sequence", 1)}
"""Results that lie in host memory whatever the arguments: lengths."""


def _kind(schema: Any, index: int) -> str:
    alias = schema.returns[index].alias_info
    if (schema.name, index) in _HOST_RETURNS or (alias is not None and alias.is_write):
        return _FIXED
    return _NEW if alias is None else _VIEW


def _whole(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operator that takes functions, ``flex_attention``: it waits for nothing, and what it
    gives lies where its tensors do."""
    with _no_function():
        cuda = any(map(is_cuda, tensors_in([args, kwargs])))
    result = func(*args, **kwargs)
    if cuda:
        with _no_function():
            for tensor in tensors_in(result):
                set_cuda(tensor, True)
    return result
