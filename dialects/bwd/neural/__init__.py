"""The adjoints of the neural-network ops, one module a family; `MODULES` lists those that declare ops."""

from gradopt.dialects.bwd.neural import attention, convolution, image, loss, normalization, pooling, quantization

MODULES = (loss, normalization, convolution, pooling, attention, quantization, image)
