"""Writes tests/data/quant: what mx.quantize and mx.dequantize (MLX's CPU backend) make of hard groups.

affine.bin: for every type of F32, F16, BF16 the input [4, 256] in that type; then for every (bits, group) of the loops
below the planes codes, scales and biases that mx.quantize gives. floats.bin: an input [8, 256] in F32; then for mxfp4,
mxfp8 and nvfp4 the planes codes and scales, and what mx.dequantize makes of them in F32. No padding between them;
little-endian. Run from the repository root. tests/unit/test_quant.c reads them.
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


def float_rows():
    rng = np.random.default_rng(8)
    w = rng.standard_normal((8, 256)).astype(np.float32)
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0], dtype=np.float32)
    w[1, :32] = 0
    w[1, 32:64] = -0.0
    w[1, 64:96] = 3.25
    w[1, 96:128] = -1
    w[1, 128:160] = np.tile(np.concatenate([ties, -ties]), 2)             # half way between codes, scale 1
    w[1, 160:192] = np.nextafter(w[1, 128:160], np.float32(9))
    w[1, 192:224] = np.linspace(-448, 448, 32)
    w[1, 224:256] = np.where(np.arange(32) == 5, 100.0, w[1, 224:256] * 0.01)
    w[2] *= 1e-30                                                         # scales that E4M3 cannot hold
    w[3] *= 1e30
    w[4] *= np.repeat(2.0 ** np.linspace(-20, 20, 16), 16)
    w[5] *= np.repeat(6 * 2.0 ** (np.arange(16) / 16), 16) / np.abs(w[5]).reshape(16, 16).max(1).repeat(16)
    w[6, :128] *= 1e-34
    w[6, 128:] *= 1e37
    w[7] *= np.where(np.arange(256) % 7 == 0, 1e-6, 1)                    # small ones of both signs
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

with open("tests/data/quant/floats.bin", "wb") as f:
    w = mx.array(float_rows())
    f.write(raw(w))
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        codes, scales = mx.quantize(w, mode=mode)
        for plane in (codes, scales, mx.dequantize(codes, scales, mode=mode, dtype=mx.float32)):
            f.write(raw(plane))
