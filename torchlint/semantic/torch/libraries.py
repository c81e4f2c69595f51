"""What comes from other libraries and lies on the host, whatever goes into it. Data only.

Sources: the index of Python's standard library, and the documentation of the others. What hands on
what it is given (`copy`, `collections`, `functools`, `itertools`, `pickle`, `queue`) or can hold
tensors of its own (`transformers`, `albumentations`) is not among them.
"""

from __future__ import annotations

HOST = frozenset(
    """argparse ast base64 binascii bisect calendar cmath cmd codecs configparser csv datetime
    decimal difflib fileinput fnmatch fractions getopt getpass gettext glob gzip hashlib html http
    imghdr inspect io json keyword linecache locale logging math mimetypes numbers os pathlib
    platform pprint psutil re resource secrets shlex shutil signal socket sqlite3 stat statistics
    string struct subprocess sys sysconfig tarfile tempfile textwrap time timeit token tokenize
    traceback unicodedata urllib uuid warnings wave xml zipfile zlib
    PIL cv2 imageio matplotlib nibabel nltk pandas plotly pycocotools pydicom scipy seaborn skimage
    sklearn tabulate termcolor tifffile SimpleITK
    absl click configargparse docopt easydict fire ml_collections omegaconf ruamel toml tomli
    tomllib yacs yaml bs4 lxml pynvml requests wandb""".split()
)
"""Packages and modules: a number, a text, an array or an object of theirs."""
PREFETCHING = dict.fromkeys(
    ("timm.data.create_loader", "timm.data.loader.create_loader"), "use_prefetcher"
)
"""Functions that make a loader which brings its batches to the device itself, and the keyword that
switches this off."""
NUMBERS = {
    "random.random": "float",
    "random.uniform": "float",
    "random.gauss": "float",
    "random.normalvariate": "float",
    "random.betavariate": "float",
    "random.expovariate": "float",
    "random.triangular": "float",
    "random.randint": "int",
    "random.randrange": "int",
    "random.getrandbits": "int",
    "operator.index": "int",
    "itertools.count": "int",
    "math.ceil": "int",
    "math.floor": "int",
    "math.gcd": "int",
    "math.comb": "int",
    "torch.distributed.get_rank": "int",
    "torch.distributed.get_world_size": "int",
    "torch.distributed.get_node_local_rank": "int",
    "torch.cuda.device_count": "int",
    "torch.cuda.current_device": "int",
    "torch.cuda.memory_allocated": "int",
    "torch.cuda.max_memory_allocated": "int",
    "torch.cuda.memory_reserved": "int",
    "torch.cuda.max_memory_reserved": "int",
    "torch.get_num_threads": "int",
    "torch.initial_seed": "int",
    "torch.numel": "int",
}
"""Functions that give one number, and of which kind; `itertools.count` gives them in turn."""
CONSTANTS = {
    **dict.fromkeys((f"math.{name}" for name in "e inf nan pi tau".split()), "float"),
    **dict.fromkeys(
        (f"numpy.{name}" for name in "e inf nan pi Inf NaN PINF NINF".split()), "float"
    ),
    **dict.fromkeys((f"torch.{name}" for name in "e inf nan pi".split()), "float"),
}
"""Numbers that modules hold."""
FLAGS = frozenset(
    """torch.distributed.is_initialized torch.distributed.is_available torch.cuda.is_available
    torch.cuda.is_bf16_supported torch.cuda.is_initialized torch.is_grad_enabled
    torch.is_inference_mode_enabled torch.is_autocast_enabled""".split()
)
"""Functions that give a Python truth value."""
OF_TEXT = frozenset(
    """casefold capitalize endswith isalnum isalpha isdigit islower isnumeric isspace isupper ljust
    lower lstrip removeprefix removesuffix rjust rpartition rsplit rstrip splitlines startswith
    strip swapcase upper zfill""".split()
)
"""Methods that texts have, and no tensors."""
FINDS = frozenset("find rfind index rindex count replace".split())
"""Methods that texts have, and that are of them where they are given a text."""
OF_PLAIN = (
    OF_TEXT
    | FINDS
    | frozenset(
        """as_posix copy decode encode exists format get is_dir is_file items join keys
        partition pop rglob setdefault split values""".split()
    )
)
"""Methods of texts, paths and mappings: what options hold."""
WRITERS = frozenset(
    """torch.save numpy.save numpy.savez numpy.savez_compressed numpy.savetxt pickle.dump
    joblib.dump cv2.imwrite imageio.imwrite imageio.imsave imageio.v2.imwrite
    imageio.v3.imwrite imageio.mimsave skimage.io.imsave tifffile.imwrite soundfile.write
    scipy.io.savemat scipy.io.wavfile.write torchaudio.save torchvision.utils.save_image
    torchvision.io.write_png torchvision.io.write_jpeg torchvision.io.write_video
    safetensors.torch.save_file""".split()
)
"""Functions that write what they are given to a file."""
