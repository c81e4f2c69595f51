"""Keep images narrow until they are on the GPU

## Why
A sample is copied from the worker to the main process, into pinned memory, and to the GPU. An image
as float32 takes four times the bytes that it has as uint8, a mask as int64 eight times, on each of
these ways. Converting and normalising a batch on the GPU is one cheap operation there (the dtypes'
sizes are in the PyTorch docs, "Tensor Attributes").

Flagged: what `__getitem__` of a dataset returns, where it is image data that was read as uint8 and
then divided by 255 or converted to float32, float64 or int64; and a `Compose` that ends in
`ToTensor()` or `ConvertImageDtype()`, with or without `Normalize`, as the `transform` of a dataset.
Only in a file that uses an accelerator.

## Setup
```python
import numpy as np
import torch
from torch.utils.data import Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.fromfile(self.paths[index], dtype=np.uint8))
```

## Bad
```python
class Images(Photos):
    def __getitem__(self, index):
        image = np.fromfile(self.paths[index], dtype=np.uint8).reshape(3, 64, 64)
        return torch.from_numpy(image).float() / 255


def train(loader, model):
    for x in loader:
        model(x.to(device)).sum().backward()
```

## Good
```python
class Images(Photos):
    def __getitem__(self, index):
        image = np.fromfile(self.paths[index], dtype=np.uint8).reshape(3, 64, 64)
        return torch.from_numpy(image)


def train(loader, model):
    for x in loader:
        model(x.to(device).float() / 255).sum().backward()
```

## Leave alone
Augmentation that needs floats on the CPU.
```python
from torchvision.io import read_image


class Augmented(Photos):
    def __getitem__(self, index):
        image = read_image(self.paths[index]).float() / 255
        return self.augment(image)
```

Data that are no images, or not known to be uint8.
```python
class Rows(Photos):
    def __getitem__(self, index):
        return self.rows[index].float() / 255
```

## Fix safety
No fix is offered: the conversion moves into the training loop or the model, and inference needs it
there as well.

## Measure
An epoch over 64 images in one process. Narrow samples are cheaper to put together on a CPU, too; on
a GPU three quarters of the bytes of each copy are saved as well.
```python
import tempfile
from pathlib import Path

from torch.utils.data import DataLoader

torch.manual_seed(0)
root = Path(tempfile.mkdtemp())
paths = [root / f"{index}.raw" for index in range(64)]
for path in paths:
    path.write_bytes(bytes(range(256)) * 48)
model = torch.nn.Conv2d(3, 1, 8, stride=8).to(device)
```

```python
train(DataLoader(Images(paths), batch_size=32), model)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, keyword_argument
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import assignments_of
from torchlint.semantic.code.scopes import local_class
from torchlint.semantic.data.samples import loader_unit
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.classes import is_dataset

_READERS = regex(
    r"^(cv2\.(imread|imdecode|cvtColor)|torchvision\.io\.(image\.)?(read_image|decode_\w+)|imageio\.(v[23]\.)?imread|"
    r"skimage\.io\.imread)$"
)
_WRAPS = ops.dotted("from-data", "own-dtype") | {"numpy.array", "numpy.asarray"}
_SHAPING = ops.SAME_VALUES | ops.having("repeats") | {"copy", "astype", "to", "type"}
_WIDE_DTYPES = tuple(
    dtype for dtype in dtypes.FULL if dtype.kind in ("float", "double") or dtype.name == "int64"
)
_WIDE = regex(rf"\b({'|'.join(dtypes.spelled(_WIDE_DTYPES))})$")
_CASTS = {
    method: name for method, name in dtypes.CASTS.items() if name in dtypes.spelled(_WIDE_DTYPES)
}
_COMPOSE = regex(r"^torchvision\.transforms\.(v2\.)?Compose$")
_TO_FLOAT = regex(r"^torchvision\.transforms\.(v2\.)?(ToTensor|ConvertImageDtype)$")
_NORMALIZE = regex(r"^torchvision\.transforms\.(v2\.)?Normalize$")

rule = Rule(
    __name__,
    __doc__,
    code="TL209",
    message=(
        "the dataset converts uint8 data to {dtype}; keep it narrow and cast/normalise on the GPU."
    ),
    severity="info",
    default=False,
    effect="none",
    triggers=(
        b"uint8",
        b"read_image",
        b"decode_",
        b"imread",
        b"imdecode",
        b"PIL",
        b"ToTensor",
        b"ConvertImageDtype",
    ),
)


@rule.on(cst.Return)
def check_sample(node: cst.Return, module: Module) -> Iterator[Hit]:
    if node.value is None or not on_accelerator(module) or loader_unit(module, node) != "sample":
        return
    parts: list[cst.BaseExpression] = [node.value]
    if isinstance(node.value, (cst.Tuple, cst.List, cst.Dict)):
        parts = [element.value for element in node.value.elements]
    for part in parts:
        found = _widened(module, part)
        if found is not None:
            yield Hit(found[0], {"dtype": found[1]})


@rule.on(cst.Call)
def check_pipeline(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not on_accelerator(module) or not _COMPOSE.match(module.called(node)) or not node.args:
        return
    steps = node.args[0].value
    if not isinstance(steps, cst.List) or not _transforms_dataset(module, node):
        return
    names = [(e.value, module.called(e.value)) for e in steps.elements]
    while names and _NORMALIZE.match(names[-1][1]):
        names.pop()
    if names and _TO_FLOAT.match(names[-1][1]):
        yield Hit(names[-1][0], {"dtype": "float32"})


def _transforms_dataset(module: Module, node: cst.Call) -> bool:
    """Say whether a pipeline is given to a dataset as its ``transform``, by itself or by its
    name."""
    places: list[cst.CSTNode] = [node]
    match module.small_statement(node):
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) if value is node:
            places += reads_of(module, module.scope(node), name)
    for place in places:
        arg = module.parent(place)
        match arg, module.parent(arg):
            case cst.Arg(keyword=cst.Name("transform")), cst.Call(func):
                made = local_class(module, func)
                known = (module.name(func) or "").startswith("torchvision.datasets.")
                if known or (made is not None and is_dataset(module, made)):
                    return True
    return False


@question()
def _widened(module: Module, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """Return the operation that makes returned uint8 data wide, with the dtype it gives."""
    match node:
        case cst.Name():
            values = _values(module, node)
            return _widened(module, values[0]) if len(values) == 1 else None
        case cst.BinaryOperation(left, cst.Divide(), right):
            if module.source_of(right) not in ("255", "255.0", "255."):
                return None
            found = _widened(module, left)
            return (
                found
                if found is not None
                else (node, "float32")
                if _is_narrow(module, left)
                else None
            )
        case cst.Call(cst.Attribute(source, cst.Name(method))):
            wide = _CASTS.get(method)
            if method in ("to", "type", "astype") and node.args:
                dtype = _WIDE.search(module.name(node.args[0].value) or "")
                wide = dtype[1] if dtype is not None else None
            if wide is not None and _is_narrow(module, source):
                return node, wide
            if method in _SHAPING:
                return _widened(module, source)
            return (
                _widened(module, node.args[0].value) if module.name(node.func) in _WRAPS else None
            )
    return None


@question()
def _is_narrow(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is image data as it was read: uint8."""
    match node:
        case cst.Name():
            values = _values(module, node)
            return bool(values) and all(_is_narrow(module, value) for value in values)
        case cst.Call(func, args):
            name = module.name(func) or ""
            dtype = module.name(keyword_argument(module, node, "dtype"))
            if _READERS.match(name) or dtype in ("torch.uint8", "numpy.uint8"):
                return True
            if name in _WRAPS and len(args) == 1:
                return _picture(module, args[0].value) or _is_narrow(module, args[0].value)
            if isinstance(func, cst.Attribute) and func.attr.value in _SHAPING - {
                "to",
                "type",
                "astype",
            }:
                return _is_narrow(module, func.value)
    return False


@question()
def _picture(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is an image of PIL, as it was opened or converted."""
    match node:
        case cst.Name():
            values = _values(module, node)
            return bool(values) and all(_picture(module, value) for value in values)
        case cst.Call(cst.Attribute(source, cst.Name("convert" | "resize" | "crop"))):
            return _picture(module, source)
        case cst.Call(func):
            return module.name(func) == "PIL.Image.open"
    return False


def _values(module: Module, name: cst.Name) -> list[cst.BaseExpression]:
    """Return what assignments may have bound to a name; nothing where something else may have."""
    return [each.value for each in assignments_of(module, name)]
