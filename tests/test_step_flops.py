"""The count of operations against hand arithmetic."""

from benchmarks.step_flops import step_flops
from clarel_tf.config_sections import ModelConfig


def test_every_part_of_a_tiny_model():
    settings = ModelConfig(word_size=2, filters=(3, 5), lstm_units=4, embedding_size=6)
    flops = step_flops([5, 2, 0], instances=2, settings=settings, feature_size=7, num_classes=8)
    # 5 + 2 = 7 tokens, then 3 + 1 = 4 rows, then 2 + 1 = 3 steps; the third is no caption.
    assert flops == {
        # Width 3 and 1 from 2 to 3 channels, no input gradient; twice width 3 from 3 to 3.
        "block_0": 2 * 2 * 7 * 3 * (6 + 2) + 3 * 2 * 2 * 7 * 3 * 9,
        "block_1": 3 * 2 * 4 * 5 * (9 + 3) + 3 * 2 * 2 * 4 * 5 * 15,
        # Two directions, 16 gates.
        "lstm_input": 3 * 2 * 2 * 3 * 16 * 5,
        # One of three steps is not a first one.
        "lstm_recurrent": 3 * 2 * 2 * 1 * 16 * 4,
        "text_head": 3 * 2 * 2 * 6 * 8,
        "image_tower": 2 * 2 * 2 * 6 * 7,
        "class_heads": 3 * 2 * 2 * 2 * 8 * 6,
        "distances": 3 * 2 * 2 * 2 * 6,
    }


def test_padding_earns_nothing():
    one = step_flops([9, 9], 1, ModelConfig(), 16, 4)
    assert step_flops([9, 0, 0, 9], 1, ModelConfig(), 16, 4) == one
