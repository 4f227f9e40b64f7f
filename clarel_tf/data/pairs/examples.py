"""The examples of a user's own data, as the dataset stores them."""

import numpy as np


def make_example(
    image_id: str,
    features: np.ndarray,
    captions: list[str],
    label: int,
    split: str,
    jpeg: bytes = b"",
) -> dict[str, object]:
    """The example of an image of `split`; features are float32 [D]."""
    return {
        "image_id": image_id,
        "image_features": features,
        "captions": captions,
        "label": label,
        "in_test_seen": split == "test_seen",
        "image": jpeg,
    }


def make_description(sentences: list[str], label: int) -> dict[str, object]:
    """The example of a class that sentences describe; it has no image."""
    features = np.zeros(0, np.float32)
    return make_example("", features, sentences, label, "")
