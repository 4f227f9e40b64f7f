"""Where the public files of a zero-shot dataset are: in the manual folder, or fetched now."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

from clarel_tf.errors import ClarelError
from clarel_tf.storage import array_files, files
from clarel_tf.storage.archives import read_zip_member


class PublicFiles:
    """Finds the files, as archives or as the folders that they unpack to.

    Attributes:
      SPLITS_ARCHIVE, SPLITS_FOLDER: zip archive and its folder with `res101.mat` and
        `att_splits.mat`.
      SPLITS_URL: where the archive can be fetched.
      CAPTIONS_ARCHIVE, CAPTIONS_FOLDER: tar archive and its folder with the captions.
      CAPTIONS_SOURCE: where the user gets that archive.
      PHOTOS_ARCHIVE, PHOTOS_FOLDER: tar archive and its folder with the photographs.
      PHOTOS_SOURCE: where the user gets that archive.
    """

    SPLITS_ARCHIVE: str
    SPLITS_FOLDER: str
    SPLITS_URL: str
    CAPTIONS_ARCHIVE: str
    CAPTIONS_FOLDER: str
    CAPTIONS_SOURCE: str
    PHOTOS_ARCHIVE: str
    PHOTOS_FOLDER: str
    PHOTOS_SOURCE: str

    def captions_source(self, manual_dir: Path) -> Path:
        archive = manual_dir / self.CAPTIONS_ARCHIVE
        if (manual_dir / self.CAPTIONS_FOLDER).is_dir():
            return manual_dir
        if archive.exists():
            return archive
        raise ClarelError(
            f"{archive} is missing; get it from {self.CAPTIONS_SOURCE} and put it, or the folder "
            f"{self.CAPTIONS_FOLDER} that it unpacks to, into {manual_dir}"
        )

    def photos_source(self, manual_dir: Path) -> Path:
        """The folder of photographs, or their archive."""
        folder, archive = manual_dir / self.PHOTOS_FOLDER, manual_dir / self.PHOTOS_ARCHIVE
        if folder.is_dir():
            return folder
        if archive.exists():
            return archive
        raise ClarelError(
            f"{archive} is missing; get it from {self.PHOTOS_SOURCE} and put it, or the folder "
            f"{self.PHOTOS_FOLDER} that it unpacks to, into {manual_dir}"
        )

    def own_features(self, manual_dir: Path) -> Path:
        for path in (manual_dir / "features.mat", manual_dir / "features.npz"):
            if path.exists():
                return path
        raise ClarelError(
            f"{manual_dir} has neither features.mat nor features.npz; config 'custom' takes "
            "its features from there (arrays features, image_files, labels)"
        )

    def read_mat(
        self,
        dl_manager: tfds.download.DownloadManager,
        manual_dir: Path,
        file_name: str,
        wanted: Sequence[str],
    ) -> tuple[dict[str, np.ndarray], str]:
        """Variables of a file of the splits archive: unpacked, in the archive, or fetched now."""
        unpacked = manual_dir / self.SPLITS_FOLDER / file_name
        if unpacked.exists():
            return array_files.read_mat(unpacked, wanted), str(unpacked)
        archive = manual_dir / self.SPLITS_ARCHIVE
        if not archive.exists():
            archive = self._fetch(dl_manager, unpacked)
        member = f"{self.SPLITS_FOLDER}/{file_name}"
        name, packed = f"{archive}: {member}", read_zip_member(archive, member)
        return array_files.read_mat(packed.contents, wanted, name, packed.compressed), name

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
