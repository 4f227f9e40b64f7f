"""Features of the encoded pictures of a request, in core TensorFlow operations."""

from collections.abc import Callable

import tensorflow as tf

from clarel_tf.images.backbones import Backbone
from clarel_tf.images.decoding import decode_pictures
from clarel_tf.serving.refusals import refuse_pictures

BLOCK = 8  # pictures in the network at once; more are not faster, and take more memory

PictureGraph = Callable[[tf.Tensor], tf.Tensor]


def picture_graph(backbone: Backbone) -> PictureGraph:
    """Encoded pictures, string [B] -> features, float32 [B, D]; traced once for all signatures.

    A request with bytes that are no picture is refused, and the message names their rows.
    """
    size, width = backbone.input_size, backbone.feature_width

    def block_of(
        first: tf.Tensor, image_bytes: tf.Tensor, is_good: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Features and problems of a block; zeros, without the network, once a row is bad."""
        pixels, problems = decode_pictures(image_bytes[first : first + BLOCK], size)
        zeros = tf.zeros([tf.size(problems), width])
        is_good = is_good & tf.reduce_all(problems == "")
        features = tf.cond(is_good, lambda: backbone.features(pixels), lambda: zeros)
        return tf.ensure_shape(features, [None, width]), problems

    def features_of(image_bytes: tf.Tensor) -> tf.Tensor:
        def step(
            first: tf.Tensor, features: tf.Tensor, problems: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            is_good = tf.reduce_all(problems == "")
            more, found = block_of(first, image_bytes, is_good)
            return first + BLOCK, tf.concat([features, more], 0), tf.concat([problems, found], 0)

        _, features, problems = tf.while_loop(
            lambda first, *_: first < tf.size(image_bytes),
            step,
            (tf.constant(0), tf.zeros([0, width]), tf.zeros([0], tf.string)),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, width]),
                tf.TensorShape([None]),
            ),
            parallel_iterations=1,  # otherwise several blocks would be in memory at once
        )
        with tf.control_dependencies([refuse_pictures(problems)]):
            return tf.identity(features)

    return tf.function(features_of, [tf.TensorSpec([None], tf.string)], autograph=False)
