"""The TFDS builders `cub`, `demo`, `flowers` and `pairs`, importable as `clarel_tf.datasets.*`.

The repository has them in the folder `datasets/`, for `tfds build datasets/NAME`, and this module
looks there. An installed package has them in this folder.
"""

from pathlib import Path

_IN_CLONE = Path(__file__).resolve().parents[2] / "datasets"
if not any(Path(__path__[0]).glob("*/*_dataset_builder.py")) and _IN_CLONE.is_dir():
    __path__.append(str(_IN_CLONE))

# Where the builders' folders are.
FOLDER = Path(__path__[-1])
