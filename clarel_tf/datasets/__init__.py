"""The TFDS builders `cub`, `demo`, `flowers` and `pairs`, by import names of our own.

They are in the folder `datasets/` of the repository, for `tfds build datasets/NAME`. An installed
package has them here; in a clone this module looks there.
"""

from pathlib import Path

_IN_CLONE = Path(__file__).resolve().parents[2] / "datasets"
if not any(Path(__path__[0]).glob("*/*_dataset_builder.py")) and _IN_CLONE.is_dir():
    __path__.append(str(_IN_CLONE))

# Where the builders' folders are.
FOLDER = Path(__path__[-1])
