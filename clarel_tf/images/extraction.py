"""The features of a whole folder of pictures, in one file; continues after a kill."""

from collections.abc import Callable
from pathlib import Path

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbones import Backbone
from clarel_tf.images.embedding import embed, embedded_batches, refuse_broken
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.feature_files import read_features, write_features
from clarel_tf.images.feature_parts import WHAT, FeatureParts, make_folder
from clarel_tf.images.picture_files import list_pictures
from clarel_tf.images.picture_sources import FolderPictures
from clarel_tf.storage import files

_REMEDY = (
    "Correct or remove them and give the same command again, which continues; or leave them out "
    "with --skip_broken"
)


def extract_folder(
    images: str | Path,
    output: str | Path,
    backbone: Backbone,
    skip_broken: bool = False,
    tell: Callable[[str], None] = print,
) -> list[str]:
    """Writes the features of all pictures below a folder, and returns the paths of the pictures.

    Broken pictures are told at once and refused at the end, when the features of all others are
    kept: after a correction, only the corrected ones remain to be done.

    Args:
      images: the folder.
      output: an `.npz` file, which `datasets/pairs` and the config `custom` of CUB can read.
      skip_broken: writes the file without them.
      tell: gets lines about progress and broken pictures.
    """
    images, output = Path(images), Path(output)
    if output.suffix != ".npz":
        raise ClarelError(f"output {output} must end in .npz")
    names = list_pictures(images)
    if output.exists():
        kept = _check_finished(output, images, names, backbone, skip_broken)
        which = "all" if len(kept) == len(names) else f"{len(kept):,} of"
        tell(f"{output} has the features of {which} {len(names):,} pictures already")
        return kept
    with files.writing_in(output.parent, "the folder of the output"):
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = make_folder(output)
        with files.only_process(folder, WHAT):
            parts = FeatureParts(folder, backbone.record)
            kept, problems = embed(FolderPictures(images, names), parts, backbone, tell)
            if not (skip_broken and kept):
                refuse_broken(problems, len(names), _REMEDY)
            write_features(output, kept, parts.rows(kept), backbone.record)
            parts.delete()
    return kept


def _check_finished(
    output: Path, images: Path, names: list[str], backbone: Backbone, skip_broken: bool
) -> list[str]:
    """Names of the pictures in a finished file; raises ClarelError if it is not what is wanted."""
    kept, _, record = read_features(output)
    record.check_same(backbone.record, output, "this command")
    left_out = [name for name in names if name not in set(kept)]
    fits = len(kept) + len(left_out) == len(names) and (skip_broken or not left_out)
    if fits and left_out:  # broken ones, unless they were added or corrected since
        pictures = FolderPictures(images, names).pictures(left_out)
        batches = embedded_batches(pictures, Extractor(backbone), with_jpegs=False)
        fits = not any(batch.names for batch in batches)
    if not fits:
        raise ClarelError(
            f"{output} exists, with the features of {len(kept)} pictures, which are not the "
            f"{len(names)} of the folder; name another file, or delete it"
        )
    written = output.stat().st_mtime_ns
    changed = [name for name in kept if (images / name).stat().st_mtime_ns > written]
    if changed:
        raise ClarelError(
            f"{output} is older than {len(changed)} of its pictures, such as {changed[0]}; name "
            "another file, or delete it"
        )
    return kept
