"""The TFDS builder that CUB and Flowers share: public files in, six splits out."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

from clarel_tf.data.builders import MarkedBuild, OptionalConfigs
from clarel_tf.data.schema import checked_class_names, example_features
from clarel_tf.data.zero_shot.captions import match_images, read_captions
from clarel_tf.data.zero_shot.splits import LOCATIONS, make_splits, read_locations
from clarel_tf.errors import ClarelError
from clarel_tf.storage import files
from clarel_tf.storage.archives import read_zip_member
from clarel_tf.storage.array_files import checked_features, read_mat, read_npz

_FEATURE_ARRAYS = ("features", "image_files", "labels")


class RawData(NamedTuple):
    """The contents of the raw files, in the row order of the feature file.

    Attributes:
      image_ids: N names.
      features: float32 [N, D].
      captions: N lists of ten sentences.
      labels: int64 [N], zero-based.
      class_folders: the caption folder of each class, in the order of the labels.
      splits: rows of each split.
    """

    image_ids: list[str]
    features: np.ndarray
    captions: list[list[str]]
    labels: np.ndarray
    class_folders: list[str]
    splits: dict[str, np.ndarray]


class ZeroShotBuilder(  # type: ignore[call-arg]  # TFDS has no types
    MarkedBuild, OptionalConfigs, tfds.core.GeneratorBasedBuilder, skip_registration=True
):
    """Base of the builders; a subclass names its files.

    Attributes:
      SPLITS_ARCHIVE, SPLITS_FOLDER: zip archive and its folder with `res101.mat` and
        `att_splits.mat`.
      SPLITS_URL: where the archive can be fetched.
      CAPTIONS_ARCHIVE, CAPTIONS_FOLDER: tar archive and its folder with the captions.
      CAPTIONS_SOURCE: where the user gets that archive.
    """

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
    ]
    SPLITS_ARCHIVE: str
    SPLITS_FOLDER: str
    SPLITS_URL: str
    CAPTIONS_ARCHIVE: str
    CAPTIONS_FOLDER: str
    CAPTIONS_SOURCE: str

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
                {
                    "image_id": raw.image_ids[row],
                    "image_features": raw.features[row],
                    "captions": raw.captions[row],
                    "label": int(raw.labels[row]),
                    "in_test_seen": bool(is_test),
                    "image": b"",
                },
            )

    def _read(self, dl_manager: tfds.download.DownloadManager) -> RawData:
        """Reads and checks all raw files, before any record is written."""
        manual_dir = Path(dl_manager.manual_dir)
        captions_source = self._captions_source(manual_dir)
        arrays, features_name = self._read_features(dl_manager, manual_dir)
        variables, splits_name = self._read_mat(dl_manager, manual_dir, "att_splits.mat", LOCATIONS)

        image_files = _as_strings(arrays["image_files"], features_name)
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
        labels, folders = _check_classes(arrays["labels"], image_ids, features_name)
        folder = f"{captions_source}: {self.CAPTIONS_FOLDER}, one folder a class"
        checked_class_names(folders, folder)
        locations = read_locations(variables, len(image_ids), splits_name)
        splits = make_splits(locations, image_ids, labels, splits_name)
        ordered = [captions[image_id] for image_id in image_ids]
        return RawData(image_ids, features, ordered, labels, folders, splits)

    def raw_files(self, manual_dir: Path) -> list[Path]:
        """The captions, the splits and the features; what is fetched is not among them."""
        found = [self._captions_source(manual_dir)]
        if found[0] == manual_dir:
            found[0] = manual_dir / self.CAPTIONS_FOLDER
        names = ["att_splits.mat"]
        if self.builder_config.name == "res101":
            names.append("res101.mat")
        else:
            found.append(self._own_features(manual_dir))
        for name in names:
            unpacked = manual_dir / self.SPLITS_FOLDER / name
            found.append(unpacked if unpacked.exists() else manual_dir / self.SPLITS_ARCHIVE)
        return [path for path in dict.fromkeys(found) if path.exists()]

    def _captions_source(self, manual_dir: Path) -> Path:
        archive = manual_dir / self.CAPTIONS_ARCHIVE
        if (manual_dir / self.CAPTIONS_FOLDER).is_dir():
            return manual_dir
        if archive.exists():
            return archive
        raise ClarelError(
            f"{archive} is missing; get it from {self.CAPTIONS_SOURCE} and put it, or the folder "
            f"{self.CAPTIONS_FOLDER} that it unpacks to, into {manual_dir}"
        )

    def _read_features(
        self, dl_manager: tfds.download.DownloadManager, manual_dir: Path
    ) -> tuple[dict[str, np.ndarray], str]:
        if self.builder_config.name == "res101":
            arrays, name = self._read_mat(dl_manager, manual_dir, "res101.mat", _FEATURE_ARRAYS)
        else:
            path = self._own_features(manual_dir)
            read = read_mat if path.suffix == ".mat" else read_npz
            arrays, name = read(path, _FEATURE_ARRAYS), str(path)
        for key in _FEATURE_ARRAYS:
            if key not in arrays:
                raise ClarelError(f"{name} has no array {key!r}")
        return arrays, name

    def _own_features(self, manual_dir: Path) -> Path:
        for path in (manual_dir / "features.mat", manual_dir / "features.npz"):
            if path.exists():
                return path
        raise ClarelError(
            f"{manual_dir} has neither features.mat nor features.npz; config 'custom' takes "
            "its features from there (arrays features, image_files, labels)"
        )

    def _read_mat(
        self,
        dl_manager: tfds.download.DownloadManager,
        manual_dir: Path,
        file_name: str,
        wanted: Sequence[str],
    ) -> tuple[dict[str, np.ndarray], str]:
        """Variables of a file of the splits archive: unpacked, in the archive, or fetched now."""
        unpacked = manual_dir / self.SPLITS_FOLDER / file_name
        if unpacked.exists():
            return read_mat(unpacked, wanted), str(unpacked)
        archive = manual_dir / self.SPLITS_ARCHIVE
        if not archive.exists():
            archive = self._fetch(dl_manager, unpacked)
        member = f"{self.SPLITS_FOLDER}/{file_name}"
        name, packed = f"{archive}: {member}", read_zip_member(archive, member)
        return read_mat(packed.contents, wanted, name, packed.compressed), name

    def _fetch(self, dl_manager: tfds.download.DownloadManager, unpacked: Path) -> Path:
        try:
            archive = Path(dl_manager.download(self.SPLITS_URL))
        except NonMatchingChecksumError as error:
            raise ClarelError(
                f"{self.SPLITS_URL} has a checksum other than checksums.tsv: it was changed "
                "or damaged on the way; fetch it by other means and compare"
            ) from error
        except (
            OSError,
            requests.RequestException,
            tfds.download.DownloadError,
        ) as error:
            raise ClarelError(
                f"{unpacked} is missing, and {self.SPLITS_URL} could not be fetched "
                f"({type(error).__name__}); fetch {self.SPLITS_ARCHIVE} from there by other means "
                f"and put it, or what it unpacks to, into the manual folder"
            ) from error
        self._compare_with_first_fetch(archive)
        return archive

    def _compare_with_first_fetch(self, archive: Path) -> None:
        """Compares an archive with the checksum of its first fetch, or records that checksum."""
        record = archive.parent / f"{self.SPLITS_ARCHIVE}.sha256"
        found = files.sha256(archive)
        if not record.exists():
            with files.written_aside(record) as temporary:
                temporary.write_text(f"{found}  {self.SPLITS_ARCHIVE}\n", encoding="utf-8")
            print(f"Fetched {self.SPLITS_URL}: SHA-256 {found}, noted in {record}")
        elif record.read_text(encoding="utf-8").split()[:1] != [found]:
            archive.unlink()
            raise ClarelError(
                f"{self.SPLITS_URL} is not what was fetched from there before (its SHA-256 is "
                f"{found}, {record} has another): if it was changed on purpose, delete that file"
            )


def _as_strings(array: np.ndarray, where: str) -> list[str]:
    """`image_files` is a cell array in .mat files and an array of strings in .npz files."""
    values = [
        item.item() if isinstance(item, np.ndarray) and item.size == 1 else item
        for item in array.ravel().tolist()
    ]
    if not values or not all(isinstance(value, str) for value in values):
        raise ClarelError(f"{where}: 'image_files' must be a list of paths")
    return [str(value).strip() for value in values]


def _check_classes(labels: Any, image_ids: list[str], where: str) -> tuple[np.ndarray, list[str]]:
    """Zero-based labels, int64 [N], and the caption folder of each class."""
    labels = np.asarray(labels).ravel()
    if labels.dtype.kind not in "iuf" or len(labels) != len(image_ids):
        raise ClarelError(f"{where}: 'labels' must be {len(image_ids)} numbers, one an image")
    # Compared before the conversion to integers, so that NaN is found.
    wrong = np.flatnonzero(
        ~((labels >= 1) & (labels <= len(labels)) & (np.floor(labels) == labels))
    )
    if wrong.size:
        raise ClarelError(
            f"{where}: the label of image number {wrong[0] + 1} is {labels[wrong[0]]}; labels must "
            "be whole numbers that count from 1 to the number of classes"
        )
    labels = labels.astype(np.int64) - 1
    folder_of_label: dict[int, str] = {}
    for number, (label, image_id) in enumerate(zip(labels.tolist(), image_ids, strict=True), 1):
        folder = PurePosixPath(image_id).parent.name
        if folder_of_label.setdefault(label, folder) != folder:
            raise ClarelError(
                f"{where}: image number {number} has label {label + 1}, but its captions are in "
                f"{folder}, those of other images with that label in {folder_of_label[label]}"
            )
    for label in range(max(folder_of_label) + 1):
        if label not in folder_of_label:
            raise ClarelError(f"{where}: class {label + 1} has no image")
    return labels, [folder_of_label[label] for label in sorted(folder_of_label)]
