"""The towers of the paper, with sizes and options from the settings."""

from collections.abc import Sequence

from clarel_tf.config_sections import ModelConfig
from clarel_tf.models.caption_tower import CaptionTower
from clarel_tf.models.feature_tower import FeatureTower


def standard_towers(
    settings: ModelConfig,
    vocabulary: Sequence[str],
    feature_size: int,
    frozen_words: bool = False,
) -> tuple[FeatureTower, CaptionTower]:
    """(image tower, text tower), not built yet.

    Args:
      vocabulary: words, as `build_vocabulary` returns them.
      feature_size: D, width of the image features.
      frozen_words: keep the vectors of words as `set_word_vectors` sets them.

    Example:

    >>> image_tower, text_tower = clarel_tf.standard_towers(clarel_tf.ModelConfig(), ["a"], 2048)
    >>> text_tower.embedding_size
    1024
    """
    # The text tower first: the random weights of each layer depend on the order.
    text_tower = CaptionTower(
        vocabulary,
        settings.max_tokens,
        word_size=settings.word_size,
        filters=settings.filters,
        lstm_units=settings.lstm_units,
        embedding_size=settings.embedding_size,
        dropout=settings.text_dropout,
        frozen_words=frozen_words,
        momentum=settings.batch_norm_momentum,
        epsilon=settings.batch_norm_epsilon,
        l2=settings.l2,
        pooling=settings.text_pooling,
        name="text_tower",
    )
    image_tower = FeatureTower(
        feature_size,
        settings.embedding_size,
        settings.image_dropout,
        settings.feature_power,
        name="image_tower",
    )
    return image_tower, text_tower
