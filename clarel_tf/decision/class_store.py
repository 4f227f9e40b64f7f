"""`ClassStore`: all inputs of the decision rule for the classes of a model, in `classes.npz`."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clarel_tf.decision.descriptions import DescriptionModel, ReferenceRivals
from clarel_tf.decision.discriminants import Discriminants
from clarel_tf.decision.prototypes import Prototypes
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.errors import ClarelError
from clarel_tf.storage import checksums
from clarel_tf.storage.array_files import read_npz

_ARRAYS = ("names", "classes", "sums", "counts", "is_seen", "caption_scatter")
_REMEDY = "delete it, and evaluate_main.py makes it again"


@dataclasses.dataclass(frozen=True)
class ClassStore:
    """The classes of a tested model, with everything that the decision rule needs of them.

    Attributes:
      names: C class names, in the order of their labels.
      prototypes: of these classes.
      is_seen: bool [C], true for the classes that the model was trained on.
      caption_scatter: mean squared distance of a caption from its class mean.
      discriminants: of the seen classes, if the rule uses them.
      descriptions: for classes of a request; None in files of older versions.
      density: of the training images; None in files of older versions.
    """

    names: list[str]
    prototypes: Prototypes
    is_seen: np.ndarray
    caption_scatter: float
    discriminants: Discriminants | None = None
    descriptions: DescriptionModel | None = None
    density: ImageDensity | None = None

    def save(self, path: Path) -> None:
        """Writes an `.npz` file and its checksum."""
        arrays = {
            "names": np.array(self.names, dtype=str),
            **self.prototypes._asdict(),
            "is_seen": self.is_seen,
            "caption_scatter": np.array(self.caption_scatter),
        }
        if self.discriminants is not None:
            fields = self.discriminants._asdict().items()
            arrays |= {f"discriminant_{name}": np.asarray(value) for name, value in fields}
        if self.descriptions is not None:
            arrays |= _description_arrays(self.descriptions)
        if self.density is not None:
            arrays |= dict(zip(_DENSITY_ARRAYS, self.density, strict=True))
        with checksums.written_aside(path) as temporary:
            np.savez(temporary, **arrays)

    @classmethod
    def load(cls, path: Path) -> "ClassStore":
        """Reads a file written by `save`."""
        checksums.check(path, _REMEDY)
        named = [f"discriminant_{name}" for name in Discriminants._fields]
        arrays = read_npz(path, (*_ARRAYS, *named, *_DESCRIPTION_ARRAYS, _OWN, *_DENSITY_ARRAYS))
        if absent := [name for name in _ARRAYS if name not in arrays]:
            raise ClarelError(f"{path} lacks {', '.join(absent)}; {_REMEDY}")
        _check_shapes(arrays, path)
        discriminants = None
        if absent := [name for name in named if name not in arrays]:
            if len(absent) < len(named):
                raise ClarelError(f"{path} lacks {', '.join(absent)}; {_REMEDY}")
        else:
            stored = (arrays[name] for name in named)
            values: list[Any] = [v if v.ndim else float(v) for v in stored]
            discriminants = Discriminants(*values)
        return cls(
            arrays["names"].tolist(),
            Prototypes(arrays["classes"], arrays["sums"], arrays["counts"]),
            arrays["is_seen"],
            float(arrays["caption_scatter"]),
            discriminants,
            _read_descriptions(arrays),
            _read_density(arrays, path),
        )


_DESCRIPTION_ARRAYS = tuple(
    f"description_{name}"
    for name in (
        *("center", "references", "typical", "scatter", "share"),
        *(f"rival_{field}" for field in ReferenceRivals._fields),
    )
)


_OWN = "description_own"
_DENSITY_ARRAYS = ("image_mean", "image_whitener")


def _read_density(arrays: Mapping[str, np.ndarray], path: Path) -> ImageDensity | None:
    if any(name not in arrays for name in _DENSITY_ARRAYS):
        return None
    mean, whitener = (arrays[name] for name in _DENSITY_ARRAYS)
    width = arrays["sums"].shape[1]
    fits = mean.shape == (width,) and whitener.shape == (width, width)
    if not fits or not all(np.isfinite(array).all() for array in (mean, whitener)):
        raise ClarelError(f"{path} is damaged: its arrays do not fit together; {_REMEDY}")
    return ImageDensity(mean.astype(np.float32), whitener.astype(np.float32))


def _description_arrays(model: DescriptionModel) -> dict[str, np.ndarray]:
    fields = model._asdict()
    rivals = fields.pop("rivals")._asdict()
    fields |= {f"rival_{name}": value for name, value in rivals.items()}
    return {f"description_{name}": np.asarray(value) for name, value in fields.items()}


def _read_descriptions(arrays: Mapping[str, np.ndarray]) -> DescriptionModel | None:
    if any(name not in arrays for name in _DESCRIPTION_ARRAYS):
        return None
    found = {name.removeprefix("description_"): arrays[name] for name in _DESCRIPTION_ARRAYS}
    rivals = ReferenceRivals(*(found[f"rival_{name}"] for name in ReferenceRivals._fields))
    numbers = {name: float(found[name]) for name in ("typical", "scatter", "share")}
    # Files of older versions lack it: then `among` counts an image's own class as its rival too.
    own = arrays.get(_OWN, np.full(len(rivals.nearest), -1, np.int32))
    return DescriptionModel(found["center"], found["references"], rivals, **numbers, own=own)


def _check_shapes(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Refuses arrays that do not describe the same classes, or that no rule can use."""
    classes = len(arrays["names"])
    sums, counts = arrays["sums"], arrays["counts"]
    fits = (
        sums.ndim == 2
        and all(arrays[name].shape == (classes,) for name in ("classes", "counts", "is_seen"))
        and len(sums) == classes
        and arrays["is_seen"].dtype == bool
        and arrays["caption_scatter"].ndim == 0
    )
    if not fits or not np.isfinite(sums).all() or (counts < 1).any():
        raise ClarelError(f"{path} is damaged: its arrays do not fit together; {_REMEDY}")
