"""A small GPT over bytes: 2 million parameters, enough to make real checkpoints and to train on two cores."""

from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

__all__ = ["GPT", "ModelConfig"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the model; `context` is in bytes of text."""

    context: int = 64
    width: int = 192
    layers: int = 4
    heads: int = 6
    dropout: float = 0.1
    vocabulary: int = 256


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each behind a layer norm and a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.mix = nn.Linear(config.width, config.width)
        self.norm_feed = nn.LayerNorm(config.width)
        self.feed = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, context, width) to the same shape."""
        x = x + self.dropout(self.mix(self._attend(self.norm_attention(x))))
        mixed: Tensor = x + self.dropout(self.feed(self.norm_feed(x)))
        return mixed

    def _attend(self, x: Tensor) -> Tensor:
        batch, context, width = x.shape
        split = self.qkv(x).view(batch, context, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = fn.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, context, width)


class GPT(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        """(batch, context) int64 to logits (batch, context, vocabulary)."""
        places = torch.arange(text.shape[1], device=text.device)
        x = self.dropout(self.tokens(text) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits
