"""The neural-network ops of `hl`, one module a family; `MODULES` lists those that declare ops."""

from gradopt.dialects.hl.neural import attention, convolution, image, loss, normalization, pooling, quantization

MODULES = (loss, normalization, convolution, pooling, attention, quantization, image)
