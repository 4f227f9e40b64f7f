"""CUB-200-2011: photographs or features, ten captions an image, the proposed zero-shot splits.

tfds build datasets/cub --manual_dir=FOLDER
"""

from clarel_tf.data.zero_shot.builder import ZeroShotBuilder


class Builder(ZeroShotBuilder):
    """Builds the dataset from the public files."""

    SPLITS_ARCHIVE = "xlsa17.zip"
    SPLITS_FOLDER = "xlsa17/data/CUB"
    SPLITS_URL = "http://datasets.d2.mpi-inf.mpg.de/xian/xlsa17.zip"
    CAPTIONS_ARCHIVE = "cvpr2016_cub.tar.gz"
    CAPTIONS_FOLDER = "cvpr2016_cub/text_c10"
    CAPTIONS_SOURCE = "https://github.com/reedscot/cvpr2016"
    PHOTOS_ARCHIVE = "CUB_200_2011.tgz"
    PHOTOS_FOLDER = "CUB_200_2011/images"
    PHOTOS_SOURCE = "https://data.caltech.edu/records/65de6-vp158"
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put cvpr2016_cub.tar.gz (captions, linked from https://github.com/reedscot/cvpr2016) into the
    manual folder, and xlsa17.zip (features and splits,
    http://datasets.d2.mpi-inf.mpg.de/xian/xlsa17.zip; fetched if it is not there). The folders that
    the archives unpack to do as well. Config `custom` also needs features.mat or features.npz,
    config `photos` CUB_200_2011.tgz (https://data.caltech.edu/records/65de6-vp158) instead of
    features.
    """
