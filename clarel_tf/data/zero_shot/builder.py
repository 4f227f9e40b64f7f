"""The TFDS builder that CUB and Flowers share: public files in, six splits out."""

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.backbone_choice import read_choice
from clarel_tf.data.builders import OptionalConfigs
from clarel_tf.data.embedding_builds import EmbeddingBuild
from clarel_tf.data.schema import checked_class_names, example_features, make_example
from clarel_tf.data.zero_shot.captions import match_images, read_captions
from clarel_tf.data.zero_shot.classes import as_strings, check_classes
from clarel_tf.data.zero_shot.public_files import PublicFiles
from clarel_tf.data.zero_shot.splits import LOCATIONS, make_splits, read_locations
from clarel_tf.errors import ClarelError
from clarel_tf.images.feature_files import find_record
from clarel_tf.images.feature_parts import FeatureParts
from clarel_tf.images.picture_files import list_pictures
from clarel_tf.images.picture_sources import FolderPictures, PictureSource, TarPictures
from clarel_tf.storage.array_files import checked_features, read_mat, read_npz

_FEATURE_ARRAYS = ("features", "image_files", "labels")


class RawData(NamedTuple):
    """The contents of the raw files, in the order of the rows that the splits index.

    Attributes:
      image_ids: N names.
      features: of each of the N rows, float32 [D].
      jpegs: a small picture of each row; no bytes where only features are known.
      captions: N lists of ten sentences.
      labels: int64 [N], zero-based.
      class_folders: the caption folder of each class, in the order of the labels.
      splits: rows of each split.
    """

    image_ids: list[str]
    features: Callable[[int], np.ndarray]
    jpegs: Callable[[int], bytes]
    captions: list[list[str]]
    labels: np.ndarray
    class_folders: list[str]
    splits: dict[str, np.ndarray]


class ZeroShotBuilder(  # type: ignore[call-arg]  # TFDS has no types
    PublicFiles,
    EmbeddingBuild,
    OptionalConfigs,
    tfds.core.GeneratorBasedBuilder,
    skip_registration=True,
):
    """Base of the builders; a subclass names its files, as `PublicFiles` states."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name="res101", description="The public ResNet-101 features, 2048 wide."
        ),
    ]
    OPTIONAL_CONFIGS = [
        tfds.core.BuilderConfig(
            name="custom",
            description="Features of any backbone and width: features.mat or features.npz with "
            "features, image_files, labels.",
        ),
        tfds.core.BuilderConfig(
            name="photos", description="The photographs themselves; no file of features."
        ),
    ]

    def class_names(self, class_folders: list[str]) -> list[str]:
        """Readable names for the caption folders of the classes."""
        return class_folders

    def _info(self) -> tfds.core.DatasetInfo:
        width = 2048 if self.builder_config.name == "res101" else None
        return self.dataset_info_from_configs(features=example_features(None, width))

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        raw = self._read(dl_manager)
        names = self.class_names(raw.class_folders)
        self.info.features["label"].names = checked_class_names(names, self.CAPTIONS_ARCHIVE)
        return {name: self._generate_examples(raw, rows) for name, rows in raw.splits.items()}

    def _generate_examples(self, raw: RawData, rows: np.ndarray) -> Iterator[tuple[int, dict]]:
        in_test_seen = np.isin(rows, raw.splits["test_seen"])
        for row, is_test in zip(rows.tolist(), in_test_seen, strict=True):
            yield (
                row,
                make_example(
                    raw.image_ids[row],
                    raw.features(row),
                    raw.captions[row],
                    int(raw.labels[row]),
                    bool(is_test),
                    raw.jpegs(row),
                ),
            )

    def photo_rows(self, names: list[str], manual_dir: Path) -> tuple[list[str], np.ndarray]:
        """The photographs in the order of the rows that the splits index, and their labels from 1.

        Args:
          names: of all N photographs, sorted; by default the rows are in this order, and a class
            is a folder.
        """
        del manual_dir
        folders = [PurePosixPath(name).parent.name for name in names]
        return names, np.unique(folders, return_inverse=True)[1] + 1

    def _read(self, dl_manager: tfds.download.DownloadManager) -> RawData:
        """Reads and checks all raw files, before any record is written."""
        manual_dir = Path(dl_manager.manual_dir)
        if self.builder_config.name == "photos":
            return self._read_photos(dl_manager, manual_dir)
        captions_source = self.captions_source(manual_dir)
        arrays, features_name = self._read_features(dl_manager, manual_dir)
        image_files = as_strings(arrays["image_files"], features_name)
        matrix = arrays["features"]
        if features_name.endswith(".mat"):
            matrix = matrix.T
        features = checked_features(matrix, len(image_files), features_name)
        expected = self.info.features["image_features"].shape[0]
        if expected not in (None, features.shape[1]):
            raise ClarelError(
                f"{features_name}: features are {features.shape[1]} wide, not {expected}; "
                "use --config=custom for features of another backbone"
            )
        captions = read_captions(captions_source, self.CAPTIONS_FOLDER)
        image_ids = match_images(image_files, captions, features_name)
        return self._checked(
            dl_manager,
            image_ids,
            arrays["labels"],
            captions,
            features_name,
            features.__getitem__,
            lambda _: b"",
        )

    def _read_photos(self, dl_manager: tfds.download.DownloadManager, manual_dir: Path) -> RawData:
        """Reads and checks everything else, then embeds the photographs."""
        captions_source, where = self.captions_source(manual_dir), self.photos_source(manual_dir)
        source: PictureSource
        if where.is_dir():
            source = FolderPictures(where, list_pictures(where))
        else:
            source = TarPictures(where, self.PHOTOS_FOLDER)
        names, labels = self.photo_rows(list(source.stamps()), manual_dir)
        if not names:
            raise ClarelError(f"{where} holds no pictures in {self.PHOTOS_FOLDER}")
        captions = read_captions(captions_source, self.CAPTIONS_FOLDER)
        image_ids = match_images(names, captions, str(where), "photograph")
        parts: list[FeatureParts] = []  # made when all is checked
        raw = self._checked(
            dl_manager,
            image_ids,
            labels,
            captions,
            str(where),
            lambda row: parts[0].features(names[row]),
            lambda row: parts[0].jpeg(names[row]),
        )
        parts.append(self.embed(source, manual_dir))
        return raw

    def _checked(
        self,
        dl_manager: tfds.download.DownloadManager,
        image_ids: list[str],
        labels: np.ndarray,
        captions: dict[str, list[str]],
        where: str,
        features: Callable[[int], np.ndarray],
        jpegs: Callable[[int], bytes],
    ) -> RawData:
        """Reads the splits, and checks them and the labels; the images are in the order of rows."""
        manual_dir = Path(dl_manager.manual_dir)
        labels, folders = check_classes(labels, image_ids, where)
        texts = f"{self.captions_source(manual_dir)}: {self.CAPTIONS_FOLDER}, one folder a class"
        checked_class_names(folders, texts)
        variables, splits_name = self.read_mat(dl_manager, manual_dir, "att_splits.mat", LOCATIONS)
        locations = read_locations(variables, len(image_ids), splits_name)
        splits = make_splits(locations, image_ids, labels, splits_name)
        ordered = [captions[image_id] for image_id in image_ids]
        return RawData(image_ids, features, jpegs, ordered, labels, folders, splits)

    def raw_files(self, manual_dir: Path) -> list[Path]:
        """The captions, the splits, the features or photographs; not what is fetched."""
        found = [self.captions_source(manual_dir)]
        if found[0] == manual_dir:
            found[0] = manual_dir / self.CAPTIONS_FOLDER
        names = ["att_splits.mat"]
        if self.builder_config.name == "res101":
            names.append("res101.mat")
        elif self.builder_config.name == "photos":
            found += self.photo_files(manual_dir)
        else:
            found.append(self.own_features(manual_dir))
        for name in names:
            unpacked = manual_dir / self.SPLITS_FOLDER / name
            found.append(unpacked if unpacked.exists() else manual_dir / self.SPLITS_ARCHIVE)
        return [path for path in dict.fromkeys(found) if path.exists()]

    def photo_files(self, manual_dir: Path) -> list[Path]:
        """The photographs and what belongs to them, such as `backbone.json`."""
        return [self.photos_source(manual_dir), *read_choice(manual_dir).files(manual_dir)]

    def _read_features(
        self, dl_manager: tfds.download.DownloadManager, manual_dir: Path
    ) -> tuple[dict[str, np.ndarray], str]:
        if self.builder_config.name == "res101":
            arrays, name = self.read_mat(dl_manager, manual_dir, "res101.mat", _FEATURE_ARRAYS)
        else:
            path = self.own_features(manual_dir)
            read = read_mat if path.suffix == ".mat" else read_npz
            arrays, name = read(path, _FEATURE_ARRAYS), str(path)
            self.made_by = find_record(path) if path.suffix == ".npz" else None
        for key in _FEATURE_ARRAYS:
            if key not in arrays:
                raise ClarelError(f"{name} has no array {key!r}")
        return arrays, name
