"""Classifies images with an exported classifier, in a folder or on a model server.

python classify_main.py --export_dir=exports/demo --dataset=demo --image_ids=demo_07000 \\
  --new_class="snow cap: a tiny bird with a snowy crown; a small bird, white cap, brown back"
"""

import csv
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.errors import ClarelError, printable


def define_flags() -> None:
    flags.DEFINE_string("export_dir", None, "folder of an export")
    flags.DEFINE_string(
        "server",
        None,
        "model server instead of a folder: http://host:8501 or https://host (REST), host:8500 or "
        "grpcs://host:8500 (gRPC, plain or with TLS)",
    )
    flags.DEFINE_string("features", None, ".npz file with image_ids [N], features [N, D]")
    flags.DEFINE_string("dataset", None, "take the images of --image_ids from this dataset")
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
    flags.DEFINE_float("timeout", 60.0, "seconds for the whole call to a server", lower_bound=0.1)
    flags.DEFINE_string("ca_file", None, "PEM file of certificates to trust (TLS)")
    flags.DEFINE_string(
        "authorization_file", None, "file with the value of the Authorization header for the server"
    )
    cli.define_data_flags()


def main() -> None:
    if bool(flags.FLAGS.export_dir) == bool(flags.FLAGS.server):
        raise ClarelError("give either --export_dir or --server")
    if bool(flags.FLAGS.features) == bool(flags.FLAGS.dataset):
        raise ClarelError("give either --features, or --dataset with --image_ids")
    if flags.FLAGS.features and flags.FLAGS.image_ids:
        raise ClarelError(
            "--image_ids needs --dataset; --features classifies all images of its file"
        )
    if (flags.FLAGS.ca_file or flags.FLAGS.authorization_file) and not flags.FLAGS.server:
        raise ClarelError("--ca_file and --authorization_file need --server")
    from clarel_tf.serving.class_files import new_classes_of
    from clarel_tf.serving.options import checked_alpha, checked_threshold, warnings_of

    if flags.FLAGS.alpha is not None:
        checked_alpha(flags.FLAGS.alpha, "--alpha")
    if flags.FLAGS.threshold is not None:
        checked_threshold(flags.FLAGS.threshold, "--threshold")
    if flags.FLAGS["among"].present and not flags.FLAGS.among:
        raise ClarelError("--among has no class; name some, or leave it out to offer all classes")
    new_classes = new_classes_of(flags.FLAGS.new_class, flags.FLAGS.new_classes)
    image_ids, features = _images()
    if flags.FLAGS.export_dir:
        from clarel_tf.serving.versions import newest_version

        with cli.about_flag("export_dir"):
            newest_version(Path(flags.FLAGS.export_dir), "prototype_classifier")
    cli.start_tensorflow()
    from clarel_tf.serving.client import ServingClient, connect
    from clarel_tf.serving.local import LocalTransport, answer_rows, read_authorization

    if flags.FLAGS.server:
        with cli.about_flag("authorization_file"):
            authorization = read_authorization(flags.FLAGS.authorization_file)
        with cli.about_flag("server"):
            client = connect(
                flags.FLAGS.server,
                flags.FLAGS.timeout,
                ca_file=flags.FLAGS.ca_file,
                authorization=authorization,
            )
    else:
        client = ServingClient(LocalTransport(flags.FLAGS.export_dir))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            answer = client.classify(
                features,
                flags.FLAGS.alpha,
                new_classes,
                k=flags.FLAGS.k,
                among=flags.FLAGS.among or None,
                replaces=flags.FLAGS.replaces,
                extends=flags.FLAGS.extends,
                threshold=flags.FLAGS.threshold,
            )
    except ClarelError as error:
        if "image_features" not in str(error):
            raise
        images = "features" if flags.FLAGS.features else "dataset"
        raise ClarelError(f"--{images}={flags.FLAGS[images].value}: {error}") from error
    rows, about = answer_rows(image_ids, answer), warnings_of(answer)
    if flags.FLAGS.format == "json":
        for row in rows:
            if text := about.get(row["class"]):
                row["warning"] = text
    for warning in caught:
        if flags.FLAGS.format != "json" or str(warning.message) not in about.values():
            print(f"warning: {printable(str(warning.message))}", file=sys.stderr)
    _show(rows)


def _images() -> tuple[list[str], Any]:
    """Ids and features of the images to classify."""
    if flags.FLAGS.features:
        from clarel_tf.serving.local import read_image_features

        with cli.about_flag("features"):
            return read_image_features(flags.FLAGS.features)
    _, splits = cli.load_dataset(flags.FLAGS.dataset, flags.FLAGS.config)
    from clarel_tf.serving.local import find_images

    return find_images(splits, flags.FLAGS.image_ids)


def _show(rows: list[dict[str, Any]]) -> None:
    if flags.FLAGS.format == "json":
        print(json.dumps(rows, indent=2))
        return
    if flags.FLAGS.format == "csv":
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _shown(value) for key, value in row.items()} for row in rows)
        return
    widths = {key: max(len(key), *(len(_cell(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in widths}, *rows]:
        print("  ".join(_cell(row[key]).ljust(width) for key, width in widths.items()).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(_shown(value))


def _shown(value: Any) -> Any:
    """`value`; in a string, control characters are escaped."""
    return printable(value) if isinstance(value, str) else value


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0])


if __name__ == "__main__":
    run()
