"""A generated library of any number of files, for what a larger project costs."""

from __future__ import annotations


def library(files: int) -> dict[str, str]:
    """Return files in a ring: each has a layer, which derives from the one of the file before it
    four levels deep, calls the functions of the next four and hands them its flag."""
    found = {}
    for one in range(files):
        others = [(one + by) % files for by in (1, 2, 3, 4)]
        imports = "\n".join(f"from lib.part{each} import step{each}" for each in others)
        calls = "\n".join(f"    step{each}(loss, x, log=log)" for each in others)
        above = f"Layer{one - 1}" if one % 4 else "nn.Module"
        base = f"from lib.part{one - 1} import Layer{one - 1}\n" if one % 4 else ""
        found[f"lib/part{one}.py"] = (
            f"import torch\nfrom torch import nn\n{imports}\n{base}\n\n"
            f"class Layer{one}({above}):\n    def __init__(self, size{one}):\n"
            f"        super().__init__()\n        self.linear{one} = nn.Linear(size{one}, 3)\n\n"
            f"    def forward(self, x):\n        y = self.linear{one}(x)\n"
            f"        return y * torch.ones(3).to(x.device)\n\n\n"
            f"def step{one}(loss, x, log=False):\n    if log:\n        print(loss.item())\n"
            f"{calls}\n"
        )
    found["lib/__init__.py"] = ""
    found["train.py"] = (
        "import torch\nfrom lib.part0 import Layer0, step0\n\n\n"
        "def train(loader):\n    model = Layer0(3).cuda()\n"
        "    optimizer = torch.optim.SGD(model.parameters())\n    for x in loader:\n"
        "        loss = model(x.cuda()).sum()\n        optimizer.zero_grad()\n"
        "        loss.backward()\n        optimizer.step()\n        step0(loss, x)\n"
    )
    return found
