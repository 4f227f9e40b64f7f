"""The text tower in plain Keras layers on padded captions: the oracle of the packed one."""

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.models.caption_tower import CaptionTower


class PlainTextTower(keras.layers.Layer):
    """Embedding, Conv1D, BatchNormalization and Bidirectional LSTM with masks."""

    def __init__(self, packed: CaptionTower, dropout: float = 0.0):
        """Takes over sizes and weights of `packed`, but not its dropout and regularisation."""
        super().__init__()
        config = packed.get_config()
        self.embedding = keras.layers.Embedding(*packed.words.shape)
        self.embedding.build()
        self.blocks = [PlainBlock(block, config) for block in packed.blocks]
        units = packed.lstm.units
        self.lstm = keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))
        self.lstm.build((None, None, packed.blocks[-1].filters))
        self.dropout = keras.layers.Dropout(dropout)
        self.head = keras.layers.Dense(config["embedding_size"])
        self.adds_maximum = config["pooling"] == "mean_max"
        self.head.build((None, 4 * units if self.adds_maximum else 2 * units))
        for mine, theirs in self.pairs(packed):
            mine.assign(np.reshape(theirs, mine.shape))

    def pairs(self, packed: CaptionTower) -> list[tuple[keras.Variable, np.ndarray]]:
        """(variable here, value of its partner in `packed`) for all weights."""
        pairs = [(self.embedding.embeddings, packed.words.numpy())]
        for mine, theirs in zip(self.blocks, packed.blocks, strict=True):
            pairs += [
                (conv.kernel, k.numpy()) for conv, k in zip(mine.convs, theirs.kernels, strict=True)
            ]
            pairs.append((mine.shortcut.kernel, theirs.shortcut_kernel.numpy()))
            norms = zip(
                [*mine.norms, mine.shortcut_norm],
                [*theirs.norms, theirs.shortcut_norm],
                strict=True,
            )
            for my_norm, their_norm in norms:
                for name in ("gamma", "beta", "moving_mean", "moving_variance"):
                    pairs.append((getattr(my_norm, name), getattr(their_norm, name).numpy()))
        for index, layer in enumerate((self.lstm.forward_layer, self.lstm.backward_layer)):
            cell = layer.cell
            pairs.append((cell.kernel, packed.lstm.kernel.numpy()[index]))
            pairs.append((cell.recurrent_kernel, packed.lstm.recurrent_kernel.numpy()[index]))
            pairs.append((cell.bias, packed.lstm.bias.numpy()[index, 0]))
        pairs.append((self.head.kernel, packed.head.kernel.numpy()))
        pairs.append((self.head.bias, packed.head.bias.numpy()))
        return pairs

    def call(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        mask = token_ids != 0
        x = self.embedding(token_ids) * tf.cast(mask, tf.float32)[:, :, tf.newaxis]
        for block in self.blocks:
            x = block(x, mask, training=training)
            mask = mask[:, ::2]
        x = self.lstm(x, mask=mask)
        weights = tf.cast(mask, tf.float32)[:, :, tf.newaxis]
        pooled = tf.reduce_sum(x * weights, axis=1) / tf.reduce_sum(weights, axis=1)
        if self.adds_maximum:
            highest = tf.reduce_max(tf.where(weights > 0, x, -np.inf), axis=1)
            pooled = tf.concat([pooled, highest], axis=1)
        x = pooled
        return self.head(self.dropout(x, training=training))


class PlainBlock(keras.layers.Layer):
    def __init__(self, packed, config):
        super().__init__()
        self.convs = [
            keras.layers.Conv1D(packed.filters, 3, padding="same", use_bias=False) for _ in range(3)
        ]
        self.shortcut = keras.layers.Conv1D(packed.filters, 1, use_bias=False)

        def norm():
            return keras.layers.BatchNormalization(
                momentum=config["momentum"], epsilon=config["epsilon"]
            )

        self.norms, self.shortcut_norm = [norm() for _ in range(3)], norm()
        self.pool = keras.layers.MaxPooling1D(2, 2, padding="same")
        width = packed.kernels[0].shape[1]
        for i, conv in enumerate(self.convs):
            conv.build((None, None, width if i == 0 else packed.filters))
        self.shortcut.build((None, None, width))
        for layer in [*self.norms, self.shortcut_norm]:
            layer.build((None, None, packed.filters))

    def call(self, x, mask, training=False):
        weights = tf.cast(mask, tf.float32)[:, :, tf.newaxis]
        shortcut = self.shortcut_norm(self.shortcut(x), training=training, mask=mask)
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x), training=training, mask=mask)
            x = tf.nn.relu(x + shortcut if i == 2 else x) * weights
        return self.pool(x)
