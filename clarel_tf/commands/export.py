"""Exports a finished run as SavedModels for TensorFlow Serving.

python export_main.py --run_dir=runs/demo --export_dir=exports/demo
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.commands.run_models import find_backbone, run_model
from clarel_tf.config import Config
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.run_folder import RunFolder

if TYPE_CHECKING:  # modules that import TensorFlow
    from clarel_tf.data.split import Split


def define_flags() -> None:
    flags.DEFINE_string("run_dir", None, "folder of a finished run")
    flags.DEFINE_string("export_dir", None, "folder to export to")
    flags.DEFINE_integer("k", 5, "classes, captions or images in an answer", lower_bound=1)
    flags.DEFINE_string(
        "gallery_split", None, "add retrieval of the captions and images of this split"
    )
    flags.DEFINE_enum(
        "export_vocabulary",
        "training",
        ["training", "all"],
        "words of the exported model: those of the training captions, or all words of a frozen "
        "vector file",
    )
    flags.DEFINE_string(
        "word_vectors",
        None,
        "path of the run's vector file, if it moved, for --export_vocabulary=all",
    )
    flags.DEFINE_string("base_path", "/models", "path of export_dir on the server")
    cli.define_backbone_flags()
    cli.define_data_flags()


def main() -> None:
    folder, config = cli.finished_run(flags.FLAGS.run_dir)
    if not flags.FLAGS.export_dir:
        raise ClarelError("--export_dir is missing: name the folder to export to")
    if flags.FLAGS.word_vectors and flags.FLAGS.export_vocabulary != "all":
        raise ClarelError(
            "--word_vectors is for --export_vocabulary=all; without it the export has the words of "
            "the training captions"
        )
    cli.start_tensorflow()
    gallery = flags.FLAGS.gallery_split
    path, results, final, classes = run_model(folder)
    backbone, lacking = find_backbone(folder, flags.FLAGS.backbone, flags.FLAGS.weights)
    splits: dict[str, Split] = {}
    names: list[str] = []
    if classes is None or gallery:
        splits, names = _load_splits(folder, config)
    from clarel_tf.models.open_vocabulary import with_all_words
    from clarel_tf.models.saving import load_model
    from clarel_tf.reporting.final_report import final_notice
    from clarel_tf.serving.export import export_run
    from clarel_tf.serving.origin import Origin
    from clarel_tf.storage.files import file_fingerprint

    if gallery and gallery not in splits:
        raise ClarelError(f"--gallery_split={gallery} is not one of {', '.join(splits)}")
    if gallery and not any(splits[gallery].captions):
        raise ClarelError(f"--gallery_split={gallery}: that split has no image with captions")
    model = load_model(path)
    if flags.FLAGS.export_vocabulary == "all":
        if not config.word_vectors:
            raise ClarelError("--export_vocabulary=all needs a run with --word_vectors")
        vectors = flags.FLAGS.word_vectors or config.word_vectors
        if not Path(vectors).exists():
            raise ClarelError(
                f"the vector file {vectors} does not exist; give its path with --word_vectors"
            )
        folder.data.check({"word_vectors": file_fingerprint(vectors)})
        model = with_all_words(model, vectors)
    version = export_run(
        model,
        splits,
        names,
        final or results,
        flags.FLAGS.export_dir,
        k=flags.FLAGS.k,
        gallery_split=gallery,
        base_path=flags.FLAGS.base_path,
        classes=classes,
        about=final_notice(final) if final else "",
        origin=Origin(
            run_dir=os.fspath(folder.path),
            dataset="/".join(filter(None, [config.dataset, config.dataset_config])),
            model=file_fingerprint(path),
            backbone=folder.data.backbone,
        ),
        backbone=backbone,
    )
    which = "of the final model, trained on all images, " if final else ""
    print(
        f"Exported version {version} {which}to {flags.FLAGS.export_dir}; "
        "SERVING.md in that folder describes the requests."
    )
    if backbone:
        print(f"It takes pictures too: {backbone.record} is part of it.")
    else:
        print(f"It takes image features, but no pictures: {lacking}.")
    if results.lacks_validation:
        print(
            "The run had no validation images: alpha is 0, probabilities are not calibrated, and "
            "every image is accepted, because there is no threshold."
        )
    elif not results.alpha_curve:
        print("alpha is 0: validation needs images of seen and of unseen classes to choose it.")


def _load_splits(folder: RunFolder, config: Config) -> tuple[dict[str, "Split"], list[str]]:
    """The splits of the run, checked against its fingerprints, and all class names."""
    builder, splits = cli.load_dataset(config.dataset, config.dataset_config, folder)
    from clarel_tf.data.loading import class_names
    from clarel_tf.data.protocols import apply_protocol
    from clarel_tf.experiments.fingerprints import split_fingerprints

    splits = apply_protocol(splits, config.protocol, config.class_division)
    folder.data.check(split_fingerprints(splits))
    return splits, class_names(builder)


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0])


if __name__ == "__main__":
    run()
