"""A toy game for Kaixhin/Rainbow: 60 steps of its agent on stand-ins of atari_py and cv2."""

import runpy
import sys
from types import ModuleType, SimpleNamespace

import numpy as np


class Game:
    """A game of random screens whose episodes end after 80 frames."""

    def __init__(self) -> None:
        self.rng, self.left = np.random.default_rng(0), 80

    def __getattr__(self, _: str) -> object:
        return lambda *_, **__: None

    def getMinimalActionSet(self) -> list[int]:  # noqa: N802
        """Return what can be done."""
        return [0, 1, 2]

    def getScreenGrayscale(self) -> np.ndarray:  # noqa: N802
        """Return a picture."""
        return self.rng.integers(0, 255, (84, 84)).astype(np.uint8)

    def lives(self) -> int:
        """Return one."""
        return 1

    def act(self, _: int) -> int:
        """Go on by one frame; return the reward."""
        self.left -= 1
        return 1

    def reset_game(self) -> None:
        """Begin anew."""
        self.left = 80

    def game_over(self) -> bool:
        """Say whether the frames are used up."""
        return self.left <= 0


def stand_in(name: str, **members: object) -> None:
    """Put a module with these members in the place of a package."""
    module = ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module


stand_in("atari_py", ALEInterface=Game, list_games=lambda: ["toy"], get_game_path=lambda name: name)
stand_in(
    "cv2",
    resize=lambda image, *_, **__: image,
    INTER_LINEAR=1,
    imshow=lambda *_: None,
    waitKey=lambda *_: None,
    destroyAllWindows=lambda: None,
)
stand_in("plotly", offline=SimpleNamespace(plot=lambda *_, **__: None))
stand_in("plotly.graph_objs", Scatter=lambda **_: None, Line=lambda **_: None)
stand_in("plotly.graph_objs.scatter", Line=lambda **_: None)
words = (
    "--game toy --T-max 60 --memory-capacity 200 --learn-start 20 --evaluation-size 6 --hidden-size"
    " 16 --batch-size 4 --architecture data-efficient --evaluation-interval 30"
    " --evaluation-episodes 1 --target-update 20"
)
sys.argv = ["main.py", *words.split()]
runpy.run_module("main", run_name="__main__")
