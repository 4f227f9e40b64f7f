"""Exports a finished run as SavedModels for TensorFlow Serving.

python export_main.py --run_dir=runs/demo --export_dir=exports/demo
"""

from pathlib import Path

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.errors import ClarelError

_RUN_DIR = flags.DEFINE_string("run_dir", None, "folder of a finished run")
_EXPORT_DIR = flags.DEFINE_string("export_dir", None, "folder that gets the models")
_K = flags.DEFINE_integer("k", 5, "classes, captions or images in an answer", lower_bound=1)
_GALLERY = flags.DEFINE_string(
    "gallery_split", None, "split whose captions and images can be retrieved"
)
_VOCABULARY = flags.DEFINE_enum(
    "export_vocabulary",
    "training",
    ["training", "all"],
    "words of the training captions, or all words of a frozen vector file",
)
_WORD_VECTORS = flags.DEFINE_string(
    "word_vectors", None, "where the vector file of the run is now, for --export_vocabulary=all"
)
_BASE_PATH = flags.DEFINE_string("base_path", "/models", "where the server sees export_dir")


def main() -> None:
    folder, config = cli.finished_run(_RUN_DIR.value)
    if not _EXPORT_DIR.value:
        raise ClarelError("--export_dir is missing: name the folder that gets the models")
    builder, splits = cli.load_dataset(config.dataset, config.dataset_config)
    from clarel_tf.data.loading import class_names
    from clarel_tf.data.protocols import apply_protocol
    from clarel_tf.experiments.experiment import split_fingerprints
    from clarel_tf.models.open_vocabulary import with_all_words
    from clarel_tf.models.saving import load_model
    from clarel_tf.serving.export import export_run
    from clarel_tf.storage.files import file_fingerprint, read_json

    splits = apply_protocol(splits, config.protocol, config.class_division)
    folder.check_data(split_fingerprints(splits))
    if _GALLERY.value and _GALLERY.value not in splits:
        raise ClarelError(f"--gallery_split={_GALLERY.value} is not one of {', '.join(splits)}")
    model = load_model(folder.path / "model.keras")
    if _VOCABULARY.value == "all":
        if not config.word_vectors:
            raise ClarelError("--export_vocabulary=all needs a run with --word_vectors")
        vectors = _WORD_VECTORS.value or config.word_vectors
        if not Path(vectors).exists():
            raise ClarelError(
                f"the vector file {vectors} is not there; say where it is with --word_vectors"
            )
        folder.check_data({"word_vectors": file_fingerprint(vectors)})
        model = with_all_words(model, vectors)
    version = export_run(
        model,
        splits,
        class_names(builder),
        read_json(folder.results_path),
        _EXPORT_DIR.value,
        k=_K.value,
        gallery_split=_GALLERY.value,
        base_path=_BASE_PATH.value,
    )
    print(
        f"Exported version {version} to {_EXPORT_DIR.value}; SERVING.md there says how to ask it."
    )


if __name__ == "__main__":
    cli.define_data_flags()
    cli.run(main, __doc__.splitlines()[0])
