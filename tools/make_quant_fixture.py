"""Writes tests/data/quant/affine.bin: what mx.quantize and mx.dequantize (MLX's CPU backend) make of hard groups.

For every type of F32, F16, BF16: the input [4, 256] in that type; then for every (bits, group) of the loops below the
planes codes, scales and biases that mx.quantize gives. No padding between them; little-endian. Run from the
repository root. tests/unit/test_quant.c reads it.
"""
import numpy as np
import mlx.core as mx

mx.set_default_device(mx.cpu)


def rows():
    rng = np.random.default_rng(7)
    w = rng.standard_normal((4, 256)).astype(np.float32)
    w[1, :128] = np.abs(w[1, :128])          # bias at the positive extreme, scale negative
    w[1, 128:] = -np.abs(w[1, 128:])         # all negative
    w[2, :32] = 0                            # scale at its floor
    w[2, 32:64] = -1
    w[2, 64:96] = 3.25
    w[2, 96:128] = np.arange(32) - 16        # exact steps and ties
    w[2, 128:160] = (np.arange(32) - 15.5) / 8
    w[2, 160:192] *= 1e-7                    # near the floor
    w[2, 192:224] *= 1e4
    w[2, 224:256] = np.where(np.arange(32) == 5, 100.0, w[2, 224:256] * 0.01)
    w[3, 0:128] = np.tile([-2.0, 2.0], 64)   # equal extremes
    return w


def raw(a):
    return np.array(a.view(mx.uint8)).tobytes()


with open("tests/data/quant/affine.bin", "wb") as f:
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        w = mx.array(rows()).astype(dtype)
        f.write(raw(w))
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                for plane in mx.quantize(w, group_size=group, bits=bits):
                    f.write(raw(plane))
