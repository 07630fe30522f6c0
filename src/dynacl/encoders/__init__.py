"""Encoders h: observations (n, D), or windows of them (n, lags · D), to latents (n, d).

Past inputs, if the encoder sees any, follow the observations of a window (`Driven`). An encoder
says what encodes references: itself, or a second encoder. `Encoder` lists what it may say.
"""

from dynacl.encoders.base import CustomEncoder, Encoder, as_encoder
from dynacl.encoders.driven import Driven
from dynacl.encoders.mlp import MLP
from dynacl.encoders.wrapping import Asymmetric, Projected

__all__ = ["MLP", "Asymmetric", "CustomEncoder", "Driven", "Encoder", "Projected", "as_encoder"]
