"""A stand-in for torchvision where it is not installed: pictures are saved nowhere."""

import sys
from types import ModuleType
from unittest import mock

_NAMES = (
    "",
    *""".utils .transforms .transforms.functional .datasets .datasets.utils
.models .ops .tv_tensors .transforms.v2 .transforms.v2.functional""".split(),
)


def install() -> None:
    """Put empty modules in the place of torchvision's."""
    for name in _NAMES:
        module = ModuleType(f"torchvision{name}")
        module.__path__ = []
        module.__getattr__ = lambda _: mock.MagicMock()  # type: ignore[method-assign]
        sys.modules[module.__name__] = module
        parent, _, last = module.__name__.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    sys.modules["torchvision.utils"].save_image = lambda *_, **__: None  # type: ignore[attr-defined]
