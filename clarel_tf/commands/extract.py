"""Extracts the features of a folder of photographs.

python extract_main.py --images=photos --output=features.npz
"""

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.errors import ClarelError
from clarel_tf.images.cores import keep_batches_apart


def define_flags() -> None:
    flags.DEFINE_string("images", None, "folder of pictures; folders in it are searched too")
    flags.DEFINE_string("output", None, "file to write, NAME.npz")
    flags.DEFINE_string(
        "backbone",
        "efficientnet_lite2",
        "network: efficientnet_lite2, a model of keras.applications such as ResNet101, or the path "
        "of a .keras file or of a SavedModel",
    )
    flags.DEFINE_string(
        "weights",
        None,
        "file of weights for a model of keras.applications (default: Keras fetches those of "
        "ImageNet)",
    )
    flags.DEFINE_integer(
        "input_size",
        None,
        "height and width that pictures are resized to (default: 320 for efficientnet_lite2, "
        "otherwise what the network was made for)",
        lower_bound=32,
        upper_bound=2048,
    )
    flags.DEFINE_bool(
        "mirrored",
        True,
        "mean over the features of each picture and of its mirror image; --nomirrored takes half "
        "of the time",
    )
    flags.DEFINE_bool(
        "cropped", False, "only the middle of each picture, seven eighths of its height and width"
    )
    flags.DEFINE_bool("skip_broken", False, "leave out broken and huge pictures")


def main() -> None:
    values = flags.FLAGS
    for name in ("images", "output"):
        if not values[name].value:
            raise ClarelError(f"--{name} is missing (see --help)")
    if not str(values["output"].value).endswith(".npz"):  # found out before TensorFlow is imported
        raise ClarelError(f"--output={values['output'].value} must end in .npz")
    keep_batches_apart()
    cli.start_tensorflow()
    from clarel_tf.images.extraction import extract_folder
    from clarel_tf.images.loading import load_backbone

    backbone = load_backbone(
        values.backbone, values.input_size, values.weights, values.mirrored, values.cropped
    )
    names = extract_folder(
        values.images,
        values.output,
        backbone,
        values.skip_broken,
        tell=lambda line: print(line, flush=True),
    )
    print(f"{values.output}: features of {len(names):,} pictures, {backbone.feature_width} wide")


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0], "finished parts are kept; the same command continues")


if __name__ == "__main__":
    run()
