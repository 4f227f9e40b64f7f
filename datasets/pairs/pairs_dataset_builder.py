"""A user's own data: a table of images, classes and captions, and a file of image features."""

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.pairs.features import read_features
from clarel_tf.data.pairs.folder import PairsFolder, make_example, read_folder
from clarel_tf.data.pairs.table import TRAINVAL_SPLITS, read_rows
from clarel_tf.data.schema import SPLITS, MarkedBuild, OptionalConfigs, example_features
from clarel_tf.errors import ClarelError


class Builder(MarkedBuild, OptionalConfigs, tfds.core.GeneratorBasedBuilder):
    """Builds the dataset from a folder of the user; README.md describes its files."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="plain", description="Made by one process.")]
    OPTIONAL_CONFIGS = [
        tfds.core.BuilderConfig(name="beam", description="The same, made on Apache Beam.")
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Give the folder with table.csv (or table.jsonl) and features.npz as --manual_dir. The README.md
    of this dataset describes both files.
    """

    _checked: tuple[tfds.core.Path, PairsFolder] | None = None

    def _info(self) -> tfds.core.DatasetInfo:
        # Classes and width come from the user's data; class names are set after reading it.
        return self.dataset_info_from_configs(
            features=example_features(None, None), supervised_keys=None
        )

    def download_and_prepare(self, *, download_dir=None, download_config=None, **kwargs) -> None:
        """Builds the dataset; refuses a folder with mistakes before anything is written."""
        config = download_config or tfds.download.DownloadConfig()
        to_build = config.download_mode.overwrite_dataset or not self.data_path.exists()
        downloads = tfds.core.Path(download_dir or self.data_dir_root / "downloads")
        manual_dir = tfds.core.Path(config.manual_dir or downloads / "manual").expanduser()
        # Without a folder, TFDS prints where it expects one.
        if to_build and (config.manual_dir or manual_dir.exists()):
            self._read(manual_dir)
        super().download_and_prepare(
            download_dir=download_dir, download_config=download_config, **kwargs
        )

    def _read(self, path: tfds.core.Path) -> PairsFolder:
        if self._checked is None or self._checked[0] != path:
            folder = read_folder(path)
            label = self.info.features["label"]
            if label.num_classes is not None and label.names != folder.class_names:
                raise ClarelError(
                    f"{path} has other classes than the dataset in {self.data_path}; remove that "
                    "folder and make a new builder"
                )
            self._checked = path, folder
        return self._checked[1]

    @property
    def _split_generators(self):
        # TFDS starts a Beam pipeline for every builder whose _split_generators has a parameter
        # `pipeline`, so config `plain` must not have it.
        if self.builder_config.name == "beam":
            return self._split_generators_on_beam
        return self._split_generators_in_process

    def _split_generators_in_process(self, dl_manager: tfds.download.DownloadManager):
        folder = self._take(dl_manager)
        features: dict[str, np.ndarray] = {}
        for path in folder.features:
            features.update(zip(*read_features(path), strict=True))
        return {name: self._generate_examples(name, folder, features) for name in SPLITS}

    def _split_generators_on_beam(self, dl_manager: tfds.download.DownloadManager, pipeline):
        # Imported here because Beam is slow to import and a built dataset is read without it.
        from clarel_tf.data.pairs.beam import joined_examples

        return joined_examples(pipeline, self._take(dl_manager))

    def _take(self, dl_manager: tfds.download.DownloadManager) -> PairsFolder:
        folder = self._read(dl_manager.manual_dir)
        self._checked = None  # a later build reads the folder again
        self.info.features["label"].names = folder.class_names
        return folder

    def _generate_examples(self, name: str, folder: PairsFolder, features: dict[str, np.ndarray]):
        wanted = TRAINVAL_SPLITS if name == "trainval" else (name,)
        label = self.info.features["label"]
        for index, path in enumerate(folder.tables):
            for row, split in zip(read_rows(path), folder.splits_of_table(index), strict=True):
                if split in wanted:
                    yield (
                        row.image_id,
                        make_example(
                            row.image_id,
                            features[row.image_id],
                            row.captions,
                            label.str2int(row.class_name),
                            split,
                        ),
                    )
