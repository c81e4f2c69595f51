"""What the parts of `Module` have in common: each answers some questions and may ask all the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torchlint.semantic.module import Module


class Part:
    """A base of `Module`."""

    @property
    def _module(self) -> Module:
        """The whole of which this is a part."""
        return cast("Module", self)
