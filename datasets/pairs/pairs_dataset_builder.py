"""A user's own data: images, classes and captions; the images as photographs or as features."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.backbone_choice import read_choice
from clarel_tf.data.builders import NamedConfigs
from clarel_tf.data.embedding_builds import EmbeddingBuild
from clarel_tf.data.pairs.features import read_features
from clarel_tf.data.pairs.folder import PairsFolder, read_folder
from clarel_tf.data.pairs.found_files import find_files
from clarel_tf.data.pairs.left_out import remarks
from clarel_tf.data.pairs.table import TRAINVAL_SPLITS
from clarel_tf.data.schema import (
    DESCRIPTIONS,
    SPLITS,
    example_features,
    make_description,
    make_example,
)
from clarel_tf.errors import ClarelError
from clarel_tf.images.picture_sources import FolderPictures

ImageOf = Callable[[str], tuple[np.ndarray, bytes]]  # of an image id: features and small JPEG


class Builder(EmbeddingBuild, NamedConfigs, tfds.core.GeneratorBasedBuilder):
    """Builds the dataset from a folder of the user; README.md describes its files.

    Every name is a config: `--config=NAME` builds a dataset of its own, on Apache Beam if the name
    is `beam` or begins with `beam-`.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="plain", description="Made by one process.")]
    OPTIONAL_CONFIGS = [
        tfds.core.BuilderConfig(name="beam", description="The same, made on Apache Beam.")
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    The folder holds your photographs and sentences: images/<class>/ and captions/<class>.txt, or
    table.csv (or table.jsonl) with the column 'image', or such a table and features.npz. The
    README.md of this dataset describes them.
    """

    OPTIONAL_SPLITS = tuple(name for name in SPLITS if name not in ("train", "trainval"))
    BESIDE = "give the other data a name of its own with --config=NAME"

    _checked: tuple[tfds.core.Path, PairsFolder] | None = None

    def _info(self) -> tfds.core.DatasetInfo:
        # Classes and width come from the user's data; class names are set after reading it.
        return self.dataset_info_from_configs(
            features=example_features(None, None), supervised_keys=None
        )

    def raw_files(self, manual_dir: Path) -> list[Path]:
        """Tables, features or pictures, and what else is there, such as splits.json."""
        return find_files(manual_dir)

    def check_before_build(self, manual_dir: Path) -> None:
        """Reads the whole folder; mistakes are found before anything is written."""
        self._read(manual_dir)

    def _read(self, path: tfds.core.Path) -> PairsFolder:
        if self._checked is None or self._checked[0] != path:
            folder = read_folder(path)
            label = self.info.features["label"]
            if label.num_classes is not None and label.names != folder.class_names:
                raise ClarelError(
                    f"{path} has other classes than the dataset in {self.data_path}; remove that "
                    "folder and make a new builder"
                )
            for line in remarks(folder):
                print(line, file=sys.stderr)
            self._checked = path, folder
        return self._checked[1]

    @property
    def _split_generators(self):
        # TFDS starts a Beam pipeline for every builder whose _split_generators has a parameter
        # `pipeline`, so config `plain` must not have it.
        if self._is_on_beam():
            return self._split_generators_on_beam
        return self._split_generators_in_process

    def _is_on_beam(self) -> bool:
        name = self.builder_config.name
        return name == "beam" or name.startswith("beam-")

    def _split_generators_in_process(self, dl_manager: tfds.download.DownloadManager):
        folder = self._take(dl_manager)
        image_of = self._embedded(folder) if folder.pictures is not None else _read_all(folder)
        splits = {
            name: self._generate_examples(name, folder, image_of)
            for name in SPLITS
            if folder.has_split(name)
        }
        if folder.descriptions:
            splits[DESCRIPTIONS] = self._generate_descriptions(folder)
        return splits

    def _split_generators_on_beam(self, dl_manager: tfds.download.DownloadManager, pipeline):
        # Imported here because Beam is slow to import and a built dataset is read without it.
        from clarel_tf.data.pairs.beam import joined_examples

        folder = self._take(dl_manager)
        if folder.pictures is not None:
            self.made_by = read_choice(folder.path).load(folder.path).record
        return joined_examples(pipeline, folder)

    def _take(self, dl_manager: tfds.download.DownloadManager) -> PairsFolder:
        folder = self._read(dl_manager.manual_dir)
        self._checked = None  # a later build reads the folder again
        self.made_by = folder.backbone
        self.info.features["label"].names = folder.class_names
        return folder

    def _generate_descriptions(self, folder: PairsFolder):
        label = self.info.features["label"]
        for name, sentences in folder.descriptions.items():
            yield name, make_description(sentences, label.str2int(name))

    def _embedded(self, folder: PairsFolder) -> ImageOf:
        pictures = FolderPictures(folder.path, folder.pictures, folder.place)
        parts = self.embed(pictures, folder.path)
        return lambda image_id: (parts.features(image_id), parts.jpeg(image_id))

    def _generate_examples(self, name: str, folder: PairsFolder, image_of: ImageOf):
        wanted = TRAINVAL_SPLITS if name == "trainval" else (name,)
        label = self.info.features["label"]
        for image_id, class_name, captions, split in folder.images():
            if split in wanted:
                features, jpeg = image_of(image_id)
                number, is_test = label.str2int(class_name), split == "test_seen"
                yield (
                    image_id,
                    make_example(image_id, features, captions, number, is_test, jpeg),
                )


def _read_all(folder: PairsFolder) -> ImageOf:
    """The features of all images, from the user's files; there are no pictures."""
    features: dict[str, np.ndarray] = {}
    for path in folder.features:
        features.update(zip(*read_features(path), strict=True))
    return lambda image_id: (features[image_id], b"")
