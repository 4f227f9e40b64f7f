"""The flags of `classify_main.py`, checked before TensorFlow is imported."""

import os
from typing import Any

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.errors import ClarelError


def define_flags() -> None:
    flags.DEFINE_string("export_dir", None, "folder of an export")
    flags.DEFINE_string("run_dir", None, "folder of a finished run instead of an export")
    flags.DEFINE_string(
        "server",
        None,
        "model server instead of a folder: http://host:8501 or https://host (REST), host:8500 or "
        "grpcs://host:8500 (gRPC, plain or with TLS)",
    )
    flags.DEFINE_string(
        "features", None, "instead of pictures: .npz file with image_ids [N], features [N, D]"
    )
    flags.DEFINE_string(
        "dataset", None, "instead of pictures: take the images of --image_ids from this dataset"
    )
    flags.DEFINE_string(
        "config",
        "",
        "builder config of the dataset (empty: its default); for pairs, any name of your own",
    )
    flags.DEFINE_list("image_ids", [], "ids of the images to classify")
    flags.DEFINE_multi_string(
        "new_class",
        [],
        "a new class, 'name: sentence; sentence'; repeatable. It is always in the answer, with its "
        "rank",
    )
    flags.DEFINE_string(
        "new_classes",
        None,
        'file with many new classes: JSON {"name": ["sentence", ...]}, or CSV with the header '
        "class,sentence",
    )
    flags.DEFINE_list(
        "replaces",
        [],
        "new classes that take the place of the stored class with the same name (a name with a "
        "comma in double quotes)",
    )
    flags.DEFINE_list(
        "extends",
        [],
        "new classes whose sentences are added to the captions of the stored class with the same "
        "name",
    )
    flags.DEFINE_list(
        "among", [], "stored classes on offer (default: all); new classes are on offer besides"
    )
    flags.DEFINE_integer(
        "k", None, "nearest classes in the answer (default: as exported)", lower_bound=1
    )
    flags.DEFINE_float(
        "alpha",
        None,
        "replaces the alpha that the run chose; above -1. Larger values favour unseen classes",
    )
    flags.DEFINE_float(
        "threshold",
        None,
        "accepts images whose strangeness is at most this, instead of what the run chose. With "
        "this flag, --k, --among or new classes the answer has the strangeness",
    )
    flags.DEFINE_enum("format", "table", ["table", "csv", "json"], "output format")
    flags.DEFINE_float(
        "timeout",
        60.0,
        "seconds for the whole call to a server; of pictures, for each 16",
        lower_bound=0.1,
    )
    flags.DEFINE_string("ca_file", None, "PEM file of certificates to trust (TLS)")
    flags.DEFINE_string(
        "authorization_file", None, "file with the value of the Authorization header for the server"
    )
    cli.define_backbone_flags()
    cli.define_data_flags()


def check_flags(paths: list[str]) -> None:
    """Raises ClarelError for flags that do not fit together, or for paths of nothing."""
    values = flags.FLAGS
    if sum(map(bool, (values.export_dir, values.run_dir, values.server))) != 1:
        raise ClarelError("give one of --export_dir, --run_dir and --server")
    if sum(map(bool, (paths, values.features, values.dataset))) != 1:
        raise ClarelError(
            "give pictures (photo.jpg folder/), or --features, or --dataset with --image_ids"
        )
    if values.image_ids and not values.dataset:
        raise ClarelError(
            "--image_ids needs --dataset; --features classifies all images of its file"
        )
    if (values.ca_file or values.authorization_file) and not values.server:
        raise ClarelError("--ca_file and --authorization_file need --server")
    if (values.backbone or values.weights) and not (values.run_dir and paths):
        raise ClarelError("--backbone and --weights are for pictures with --run_dir")
    if values["among"].present and not values.among:
        raise ClarelError("--among has no class; name some, or leave it out to offer all classes")
    for path in paths:
        if not os.path.lexists(path):
            raise ClarelError(f"the picture {path} does not exist")


def request_options() -> dict[str, Any]:
    """The options of `ServingClient.classify`."""
    from clarel_tf.serving.class_files import new_classes_of
    from clarel_tf.serving.options import checked_alpha, checked_threshold

    values = flags.FLAGS
    if values.alpha is not None:
        checked_alpha(values.alpha, "--alpha")
    if values.threshold is not None:
        checked_threshold(values.threshold, "--threshold")
    return {
        "alpha": values.alpha,
        "new_classes": new_classes_of(values.new_class, values.new_classes),
        "k": values.k,
        "among": values.among or None,
        "replaces": values.replaces,
        "extends": values.extends,
        "threshold": values.threshold,
    }
