"""The same model in PyTorch, which `pip install -e '.[torch]'` installs.

Differences from the Keras models: batch norm counts padding, since `BatchNorm1d` has no mask;
without packed sequences the backward LSTM starts in the padding. On captions without padding all
models compute the same. `train_step.py --check` shows this with copied weights.
"""

from collections.abc import Callable
from itertools import cycle

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.helpers.plain_text_tower import PlainTextTower

LEARNING_RATE, MOMENTUM, CLIP_NORM = 0.1, 0.9, 1.0


class Block(nn.Module):
    """Three convolutions of width 3 with a 1x1 shortcut and batch norms, then max-pool 2."""

    def __init__(self, width: int, filters: int, momentum: float, epsilon: float):
        super().__init__()
        widths = [width, filters, filters]
        self.convs = nn.ModuleList(nn.Conv1d(w, filters, 3, padding=1, bias=False) for w in widths)
        self.shortcut = nn.Conv1d(width, filters, 1, bias=False)
        # PyTorch's momentum is the weight of the new value, Keras's that of the old one.
        norms = [nn.BatchNorm1d(filters, epsilon, 1 - momentum) for _ in range(4)]
        self.norms, self.shortcut_norm = nn.ModuleList(norms[:3]), norms[3]
        self.pool = nn.MaxPool1d(2, ceil_mode=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[N, C, T], zero where mask [N, 1, T] is -> [N, filters, ceil(T / 2)], likewise."""
        shortcut = self.shortcut_norm(self.shortcut(x))
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x))
            x = torch.relu(x + shortcut if i == 2 else x) * mask
        return self.pool(x)


class TorchClarel(nn.Module):
    """Both towers, the class heads and the loss, with the weights of a `PlainClarel`."""

    def __init__(self, plain, packed_sequences: bool, l2: float, dropout: float):
        super().__init__()
        self.packed_sequences, self.l2 = packed_sequences, l2
        tower: PlainTextTower = plain.text_tower
        words = torch.tensor(tower.embedding.embeddings.numpy())
        self.words = nn.Embedding.from_pretrained(words, freeze=True)
        self.blocks = nn.ModuleList(_copy_block(block) for block in tower.blocks)
        self.lstm = _copy_lstm(tower.lstm)
        self.text_head = _copy_linear(tower.head)
        self.image_head = _copy_linear(plain.image_head)
        self.text_classifier = _copy_linear(plain.text_classifier)
        self.image_classifier = _copy_linear(plain.image_classifier)
        self.dropout = nn.Dropout(dropout)

    def embed_texts(self, ids: torch.Tensor) -> torch.Tensor:
        """int [N, T] -> [N, E]."""
        mask = (ids != 0).unsqueeze(1).float()
        x = self.words(ids).transpose(1, 2) * mask
        for block in self.blocks:
            x = block(x, mask)
            mask = mask[:, :, ::2]
        x, mask = x.transpose(1, 2), mask.transpose(1, 2)
        steps = mask.sum(dim=1)
        if self.packed_sequences:
            lengths = steps[:, 0].long()
            x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(self.lstm(x)[0], batch_first=True)
            x = x.sum(dim=1)  # zero behind the end
        else:
            x = (self.lstm(x)[0] * mask).sum(dim=1)
        return self.text_head(self.dropout(x / steps))

    def loss(self, features: torch.Tensor, ids: torch.Tensor, labels: torch.Tensor):
        """The loss of `Clarel` for a batch, with lambda and kappa at 0.5."""
        instances, captions, limit = ids.shape
        texts = self.embed_texts(ids.reshape(-1, limit)).reshape(instances, captions, -1).mean(1)
        images = self.image_head(self.dropout(features))
        squares = (images**2).sum(1, keepdim=True) + (texts**2).sum(1) - 2 * images @ texts.T
        distances = squares.clamp_min(1e-12).sqrt()
        own = torch.arange(instances)
        cross_entropy = nn.functional.cross_entropy
        retrieval = cross_entropy(-distances, own) + cross_entropy(-distances.T, own)
        classification = cross_entropy(self.text_classifier(texts), labels)
        classification = classification + cross_entropy(self.image_classifier(images), labels)
        penalty = sum((weight**2).sum() for weight in self.blocks.parameters())
        return 0.25 * (retrieval + classification) + self.l2 / 2 * penalty


def torch_step(model: TorchClarel, batches: dict[str, np.ndarray]) -> Callable[[], float]:
    """A function that takes a training step on the next batch and returns the loss."""
    ready = cycle(
        [
            (
                torch.tensor(features),
                torch.tensor(ids, dtype=torch.long),
                torch.tensor(labels).long(),
            )
            for features, ids, labels in zip(
                batches["image_features"], batches["token_ids"], batches["label"], strict=True
            )
        ]
    )
    model.train()
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(parameters, LEARNING_RATE, MOMENTUM, foreach=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss(*next(ready))
        loss.backward()
        gradients = [weight.grad for weight in parameters]
        norms = torch._foreach_norm(gradients)  # clips each separately, in two calls for all
        scales = [CLIP_NORM / norm.clamp_min(CLIP_NORM) for norm in norms]
        torch._foreach_mul_(gradients, scales)
        optimizer.step()
        return loss.item()

    return step


def _copy_linear(layer) -> nn.Linear:
    kernel, bias = layer.get_weights()
    linear = nn.Linear(*kernel.shape)
    linear.weight.data, linear.bias.data = torch.tensor(kernel.T.copy()), torch.tensor(bias)
    return linear


def _copy_block(layer) -> Block:
    _, width, filters = layer.convs[0].kernel.shape
    block = Block(width, filters, layer.norms[0].momentum, layer.norms[0].epsilon)
    pairs = zip([*block.convs, block.shortcut], [*layer.convs, layer.shortcut], strict=True)
    for mine, theirs in pairs:  # Keras has [size, in, out], PyTorch [out, in, size]
        mine.weight.data = torch.tensor(theirs.kernel.numpy().transpose(2, 1, 0).copy())
    return block


def _copy_lstm(layer) -> nn.LSTM:
    width, gates = layer.forward_layer.cell.kernel.shape
    lstm = nn.LSTM(width, gates // 4, batch_first=True, bidirectional=True)
    for suffix, source in (("", layer.forward_layer), ("_reverse", layer.backward_layer)):
        kernel, recurrent, bias = source.cell.get_weights()
        getattr(lstm, f"weight_ih_l0{suffix}").data = torch.tensor(kernel.T.copy())
        getattr(lstm, f"weight_hh_l0{suffix}").data = torch.tensor(recurrent.T.copy())
        getattr(lstm, f"bias_ih_l0{suffix}").data = torch.tensor(bias)
        # Keras has one bias where PyTorch has two; the second stays at zero.
        getattr(lstm, f"bias_hh_l0{suffix}").data.zero_()
        getattr(lstm, f"bias_hh_l0{suffix}").requires_grad_(False)
    lstm.flatten_parameters()
    return lstm
