"""What lies between two matrix products: random numbers, activations, updates and rotations, for both array libraries.

Every operation stands here twice: in `NumpyKernels` as NumPy's lines, and in `CupyKernels` as the kernel that does the
same in one launch on a CUDA device. `thetarbm_cli.backend` derives its backends from them. Both draw the same random
numbers; sums and exponentials may differ in their last bits. No kernel uses atomic operations: every element is written
by one thread, which adds up in a fixed order, so that results are equal from run to run and from one GPU to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse

# An array of the backend: numpy.ndarray or cupy.ndarray. CuPy has no types to import without a GPU.
Array = Any
# A stream of random numbers, and the array that takes the states drawn with them.
Draw = tuple[Any, Array]

# exp(80) is far inside float32, σ(-80) is 0 to every digit that a product can see, and σ(80) is 1.
FARTHEST = 80.0
# Numbers that a processor's cache holds from one operation to the next; a device takes all at once.
_CACHED = 1 << 16
# Images in one sparse product: few enough that a block and its rotated copy stay in the processor's cache, and no power
# of two, whose rows would share their places there.
_BLOCK = 120
# Numbers of 32 bits that Philox makes at each step of its counter.
PHILOX_STEP = 8


class RandomStream:
    """Random numbers from NumPy's Philox generator, the same on every processor; they `start` at a step of its counter.

    Each step makes `PHILOX_STEP` numbers.
    """

    def __init__(self, seed: np.random.SeedSequence, start: int = 0) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed).advance(start))
        self._scratch = np.empty(0, dtype=np.float32)

    def uniform(self, out: Array) -> None:
        """Fill the contiguous float32 array `out` from the uniform distribution on [0, 1)."""
        self._generator.random(out=out, dtype=np.float32)

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        """Draw uniform numbers into an array that the next call takes again."""
        size = math.prod(shape)
        if self._scratch.size < size:
            self._scratch = np.empty(size, dtype=np.float32)
        numbers = self._scratch[:size].reshape(shape)
        self.uniform(numbers)
        return numbers

    def normal(self, out: Array) -> None:
        """Fill the contiguous float32 array `out` from the standard normal distribution, by Box and Muller."""
        flat = out.reshape(-1)
        pairs = (flat.size + 1) // 2
        radius, angle = self.uniforms((2, pairs))
        np.subtract(1, radius, out=radius)
        np.log(radius, out=radius)
        radius *= -2
        np.sqrt(radius, out=radius)
        angle *= np.float32(2 * math.pi)
        np.multiply(radius, np.cos(angle), out=flat[:pairs])
        rest = flat.size - pairs
        np.multiply(radius[:rest], np.sin(angle[:rest]), out=flat[pairs:])


class SparseStack:
    """S sparse (V, V) matrices T_s, such as rotations, that are applied to images in rows; None stands for identity."""

    def __init__(self, matrices: Sequence[scipy.sparse.csr_matrix | None]) -> None:
        self.matrices = tuple(matrices)

    def one(self, images: Array, s: int) -> Array:
        """T_s x of all images (n, V)."""
        result = np.empty(images.shape, dtype=np.float32)
        for rows in _blocks(0, len(images)):
            result[rows] = self._product(s, images[rows].T).T
        return result

    def each(self, images: Array, index: Array, out: Array | None = None) -> Array:
        """T_{s_i} x_i of images (n, V) and their indices s_i (n,), in `out` if it is given, not the images themselves.

        There is one product for each group of equal indices.
        """
        result = np.empty(images.shape, dtype=np.float32) if out is None else out
        order = np.argsort(index, kind="stable")
        ends = np.cumsum(np.bincount(index, minlength=len(self.matrices))).tolist()
        for s, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            for rows in _blocks(start, stop):
                chosen = order[rows]
                # Of sorted images a block is a slice, which is read and written without lists of places.
                sliced = chosen[-1] - chosen[0] == chosen.size - 1
                block = slice(chosen[0], chosen[-1] + 1) if sliced else chosen
                result[block] = self._product(s, images[block].T).T
        return result

    def all(self, images: Array, out: Array | None = None) -> Array:
        """T_s x of all images (n, V) for every s, (S, n, V), in `out` if it is given."""
        result = np.empty((len(self.matrices), *images.shape), dtype=np.float32) if out is None else out
        for rows in _blocks(0, len(images)):
            # A sparse product copies what is not contiguous: here once for all matrices.
            columns = np.ascontiguousarray(images[rows].T)
            for s, rotated in enumerate(result):
                rotated[rows] = self._product(s, columns).T
        return result

    def copies(self, images: Array) -> Iterator[Array]:
        """Give T_s x of all images (n, V) for one s after the other; each result is overwritten by the next."""
        blocks = [(rows, np.ascontiguousarray(images[rows].T)) for rows in _blocks(0, len(images))]
        rotated = np.empty(images.shape, dtype=np.float32)
        for s in range(len(self.matrices)):
            for rows, columns in blocks:
                rotated[rows] = self._product(s, columns).T
            yield rotated

    def turned(self, images: Array) -> Array:
        """T_s x of all images (n, V) for every s, (S, n, V), in the layout that products and sums take best."""
        count, pixels = images.shape
        return (self._stacked @ np.ascontiguousarray(images.T)).reshape(-1, pixels, count).transpose(0, 2, 1)

    def room(self, count: int) -> Array:
        """Make an array (S, n, V) of the layout of `turned`."""
        pixels = self._stacked.shape[1]
        return np.empty((len(self.matrices), pixels, count), dtype=np.float32).transpose(0, 2, 1)

    def total(self, turned: Array, out: Array | None = None) -> Array:
        """Σ_s T_s y_s of images (S, n, V) in the layout of `turned`: (n, V), in `out` if it is given."""
        rows = (self._side_by_side @ turned.transpose(0, 2, 1).reshape(-1, turned.shape[1])).T
        if out is None:
            return np.ascontiguousarray(rows)
        out[...] = rows
        return out

    def relative(self, images: Array, index: Array) -> Iterator[Array]:
        """T_{k - s_i} x_i of images (n, V) and their indices s_i (n,) for every k, (S, n, V) one after the other."""
        count, stack = len(images), len(self.matrices)
        # Row d·n + i holds T_d x_i: slice k takes d = k - s_i of each image.
        if self._kept.shape[1:] != images.shape:
            self._kept = np.empty((stack, *images.shape), dtype=np.float32)
        rotated = self.all(images, self._kept).reshape(stack * count, -1)
        for k in range(stack):
            yield np.take(rotated, (k - index) % stack * count + np.arange(count), axis=0)

    _kept: NDArray[np.float32] = np.empty((0, 0, 0), dtype=np.float32)

    @cached_property
    def _stacked(self) -> Any:
        import scipy.sparse

        return scipy.sparse.vstack(self.matrices, format="csr")  # type: ignore[call-overload]

    @cached_property
    def _side_by_side(self) -> Any:
        import scipy.sparse

        return scipy.sparse.hstack(self.matrices, format="csr")  # type: ignore[call-overload]

    def _product(self, s: int, columns: NDArray[np.float32]) -> Any:
        matrix = self.matrices[s]
        return columns if matrix is None else matrix @ columns


def _blocks(start: int, stop: int) -> Iterator[slice]:
    """Cut the rows start … stop−1 into equal parts for one product each."""
    parts = math.ceil((stop - start) / _BLOCK)
    step = math.ceil((stop - start) / max(parts, 1))
    for part in range(parts):
        yield slice(start + part * step, min(start + (part + 1) * step, stop))


class NumpyKernels:
    """The operations as NumPy's lines, in place and in pieces that stay in the processor's cache."""

    xp: Any = np

    def random(self, seed: np.random.SeedSequence, start: int = 0) -> RandomStream:
        """Start a stream of random numbers."""
        return RandomStream(seed, start)

    def stack(self, matrices: Sequence[scipy.sparse.csr_matrix | None]) -> SparseStack:
        """Bring sparse matrices to where images are."""
        return SparseStack(matrices)

    def sigmoid(self, x: Array, bias: Array | None = None, draw: Draw | None = None) -> Array:
        """σ(x + b) = 1 / (1 + exp(-x - b)), written over `x` (..., H); states are drawn from it on the way.

        Inputs of any size give 0 or 1, never NaN.
        """
        step = max(_CACHED * len(x) // max(x.size, 1), 1)
        for first in range(0, len(x), step):
            part = x[first : first + step]
            if bias is not None:
                part += bias
            # NumPy clips twice as fast as it takes the maximum with a number.
            np.clip(part, -FARTHEST, FARTHEST, out=part)
            np.negative(part, out=part)
            np.exp(part, out=part)
            part += 1
            np.reciprocal(part, out=part)
        if draw is not None:
            random, states = draw
            np.less(random.uniforms(x.shape), x, out=states)
        return x

    def softmax(self, x: Array, bias: Array | None = None, draw: Draw | None = None) -> Array:
        """Probabilities of the states along the first axis against an off state of energy 0, over `x` (S, n, H).

        Of z_s = x_s + b_s, b (S, H), they are exp(z_s) / (1 + Σ_t exp(z_t)). States are drawn from them on the way: the
        one in whose share of [0, 1) the uniform number of a unit falls.
        """
        if bias is not None:
            x += bias[:, None, :]
        highest = np.maximum(x.max(axis=0), 0)
        x -= highest
        np.exp(x, out=x)
        np.negative(highest, out=highest)
        np.exp(highest, out=highest)
        highest += x.sum(axis=0)
        x /= highest
        if draw is not None:
            random, states = draw
            uniforms = random.uniforms(x.shape[1:])
            lower = np.zeros_like(uniforms)
            for s in range(len(x)):
                upper = lower + x[s]
                states[s] = (uniforms >= lower) & (uniforms < upper)
                lower = upper
        return x

    def add_rows(self, x: Array, table: Array, index: Array, factor: Array | None = None) -> Array:
        """Add to each row of `x` (n, V) the row of the `table` (G, V) that `index` (n,) names, or the only one.

        With a `factor` (1,), `x` is multiplied by it first.
        """
        if factor is not None:
            x *= factor
        x += table if len(table) == 1 else np.take(table, index, axis=0)
        return x

    def squares(self, count: int, pixels: int) -> Array:
        """Make what `difference` adds squares to; the sum of its numbers along the first axis is to be added up."""
        return np.zeros((1, 1), dtype=np.float32)

    def difference(self, data: Array, model: Array, out: Array, squares: Array) -> Array:
        """Data minus model (n, V), in `out`; its squares are added to `squares`."""
        np.subtract(data, model, out=out)
        flat = out.reshape(-1)
        squares += np.dot(flat, flat)
        return out

    def pull(self, hidden: Array, pull: Array) -> Array:
        """Add pull · h (1 - h) to probabilities h (..., n, H), for a pull (H,) on each unit; give what was added."""
        pulls = 1 - hidden
        pulls *= hidden
        pulls *= pull
        hidden += pulls
        return pulls

    def update(self, parameter: Array, increment: Array, decay: float = 0.0) -> None:
        """Decay a parameter by its increment, and add that: increment -= decay · parameter; parameter += increment."""
        if decay:
            increment -= decay * parameter
        parameter += increment

    def momentum(self, parameter: Array, increment: Array, gradient: Array, rate: float, momentum: float) -> None:
        """Take a step: increment = momentum · increment + rate · gradient; parameter += increment."""
        increment *= momentum
        increment += rate * gradient
        parameter += increment


# -- on a device ----------------------------------------------------------------------------------------------

# Philox 4×64 in ten rounds (Salmon et al. 2011), as NumPy has it: its counter starts at 1, of each number of 64 bits
# the low half comes first, and a uniform number has the upper 24 bits of a half.
_PHILOX = """
typedef unsigned long long u64;
__device__ void philox(u64 counter, u64 key0, u64 key1, unsigned int* words) {
    u64 c0 = counter, c1 = 0, c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        u64 high0 = __umul64hi(0xD2E7470EE14C6C93ULL, c0), low0 = 0xD2E7470EE14C6C93ULL * c0;
        u64 high1 = __umul64hi(0xCA5A826395121157ULL, c2), low1 = 0xCA5A826395121157ULL * c2;
        c0 = high1 ^ c1 ^ key0; c1 = low1; c2 = high0 ^ c3 ^ key1; c3 = low0;
        key0 += 0x9E3779B97F4A7C15ULL; key1 += 0xBB67AE8584CAA73BULL;
    }
    words[0] = c0; words[1] = c0 >> 32; words[2] = c1; words[3] = c1 >> 32;
    words[4] = c2; words[5] = c2 >> 32; words[6] = c3; words[7] = c3 >> 32;
}
"""
# A thread makes the eight numbers of one step; number `at` of a call is the stream's number `position + at`. What is
# done with it takes the place of THEN.
_DRAWING = """
unsigned int words[8];
philox(position / 8 + i + 1, key0, key1, words);
for (int lane = 0; lane < 8; lane++) {
    long long at = 8 * (long long) i + lane - (long long) (position % 8);
    if (at < 0 || at >= count) continue;
    float uniform = (words[lane] >> 8) * (1.0f / 16777216.0f);
    THEN
}
"""
_STREAM = "uint64 key0, uint64 key1, uint64 position, int64 count"
# NaN stays NaN, as divergence is found by it.
_SIGMOID = """
float z = x + bias;
z = z < -80.0f ? -80.0f : z > 80.0f ? 80.0f : z;
float p = 1.0f / (1.0f + expf(-z));
x = p;
"""
_SOFTMAX = """
float highest = 0.0f;
for (int s = 0; s < number; s++) {
    float z = x[s * count + at] + bias[(s * units + at % units) % width];
    x[s * count + at] = z;
    if (z > highest) highest = z;
}
float total = expf(-highest);
for (int s = 0; s < number; s++) {
    float p = expf(x[s * count + at] - highest);
    x[s * count + at] = p;
    total += p;
}
float lower = 0.0f;
for (int s = 0; s < number; s++) {
    float p = x[s * count + at] / total, upper = lower + p;
    x[s * count + at] = p;
    THEN
    lower = upper;
}
"""
# The matrices are one below the other in compressed rows. Element (k, row, pixel) of the result is of matrix
# first + k + sign · index[row].
_GATHER = """
long long pixel = i % pixels, row = i / pixels % count, k = i / pixels / count;
long long s = (first + k + (sign ? sign * (long long) index[row] : 0)) % stack;
long long line = (s < 0 ? s + stack : s) * pixels + pixel;
float sum = 0.0f;
for (int at = starts[line]; at < starts[line + 1]; at++) sum += weights[at] * images[row * pixels + places[at]];
out = sum;
"""
_TOTAL = """
long long pixel = i % pixels, row = i / pixels;
float sum = 0.0f;
for (long long s = 0; s < stack; s++)
    for (int at = starts[s * pixels + pixel]; at < starts[s * pixels + pixel + 1]; at++)
        sum += weights[at] * images[(s * count + row) * pixels + places[at]];
out = sum;
"""
_MATRICES = "raw float32 images, raw int32 starts, raw int32 places, raw float32 weights, int64 stack, int64 pixels, "

# Name: inputs, outputs, what a thread does, and whether it needs Philox.
_KERNELS: dict[str, tuple[str, str, str, bool]] = {
    "uniform": (_STREAM, "raw float32 out", _DRAWING.replace("THEN", "out[at] = uniform;"), True),
    "normal": (
        "raw float32 uniforms, int64 pairs, int64 count",
        "raw float32 out",
        """
        float radius = sqrtf(-2.0f * logf(1.0f - uniforms[i])), angle = 6.2831853071795864f * uniforms[pairs + i];
        out[i] = radius * cosf(angle);
        if (pairs + i < count) out[pairs + i] = radius * sinf(angle);
        """,
        False,
    ),
    "sigmoid": ("float32 bias", "float32 x", _SIGMOID, False),
    "sigmoid_states": (
        f"{_STREAM}, raw float32 b, int64 width",
        "raw float32 xs, raw float32 states",
        _DRAWING.replace("THEN", f"float& x = xs[at]; float bias = b[at % width];{_SIGMOID}states[at] = uniform < p;"),
        True,
    ),
    "softmax": (
        "int64 count, raw float32 bias, int64 width, int64 units, int64 number",
        "raw float32 x",
        "long long at = i;" + _SOFTMAX.replace("THEN", ""),
        False,
    ),
    "softmax_states": (
        f"{_STREAM}, raw float32 bias, int64 width, int64 units, int64 number",
        "raw float32 x, raw float32 states",
        _DRAWING.replace("THEN", _SOFTMAX).replace(
            "THEN", "states[s * count + at] = uniform >= lower && uniform < upper;"
        ),
        True,
    ),
    "add_rows": (
        "raw float32 table, int64 index, int64 pixels, float32 factor",
        "float32 x",
        "x = factor * x + table[index * pixels + i % pixels]",
        False,
    ),
    "difference": (
        "float32 data, float32 model",
        "float32 out, float32 squares",
        "float d = data - model; out = d; squares += d * d;",
        False,
    ),
    "pull": (
        "float32 pull",
        "float32 hidden, float32 pulls",
        "float added = (1.0f - hidden) * hidden * pull; pulls = added; hidden += added;",
        False,
    ),
    "update": (
        "float32 decay",
        "float32 parameter, float32 increment",
        "float step = increment - decay * parameter; increment = step; parameter += step;",
        False,
    ),
    "momentum": (
        "float32 gradient, float32 rate, float32 momentum",
        "float32 parameter, float32 increment",
        "float step = momentum * increment + rate * gradient; increment = step; parameter += step;",
        False,
    ),
    "gather": (f"{_MATRICES}int64 count, raw int64 index, int64 sign, int64 first", "float32 out", _GATHER, False),
    "total": (f"{_MATRICES}int64 count", "float32 out", _TOTAL, False),
}  # fmt: skip


class CupyKernels(NumpyKernels):
    """The operations as CUDA kernels, one launch each, which CuPy compiles when they are first called."""

    @cached_property
    def kernels(self) -> dict[str, Any]:
        """All kernels by name; none is compiled yet."""
        return {
            name: self.xp.ElementwiseKernel(
                inputs, outputs, body, f"thetarbm_{name}", preamble=_PHILOX if draws else "", no_return=True
            )
            for name, (inputs, outputs, body, draws) in _KERNELS.items()
        }

    @cached_property
    def nothing(self) -> Array:
        """One zero, in the place of a bias or an index that there is none of."""
        return self.xp.zeros(1, dtype=np.int64)

    def random(self, seed: np.random.SeedSequence, start: int = 0) -> RandomStream:
        """Start a stream of the same numbers on the device."""
        return _DeviceStream(self, seed, start)

    def stack(self, matrices: Sequence[scipy.sparse.csr_matrix | None]) -> SparseStack:
        """Copy sparse matrices to the device."""
        return _DeviceStack(self, matrices)

    def sigmoid(self, x: Array, bias: Array | None = None, draw: Draw | None = None) -> Array:
        """σ(x + b) over `x`, and states drawn from it."""
        if draw is None:
            self.kernels["sigmoid"](np.float32(0) if bias is None else bias, x)
            return x
        random, states = draw
        bias, width = self._bias(bias)
        random.launch("sigmoid_states", x.size, bias, width, x, states)
        return x

    def softmax(self, x: Array, bias: Array | None = None, draw: Draw | None = None) -> Array:
        """Probabilities of the states along the first axis over `x`, and states drawn from them."""
        bias, width = self._bias(bias)
        states, count, units = len(x), x[0].size, x.shape[-1]
        if draw is None:
            self.kernels["softmax"](count, bias, width, units, states, x, size=count)
        else:
            random, drawn = draw
            random.launch("softmax_states", count, bias, width, units, states, x, drawn)
        return x

    def _bias(self, bias: Array | None) -> tuple[Array, int]:
        """Give a bias and how many numbers it has; one zero for none."""
        return (self.nothing.view(np.float32), 1) if bias is None else (bias, bias.size)

    def add_rows(self, x: Array, table: Array, index: Array, factor: Array | None = None) -> Array:
        """Add to each row of `x`, perhaps times a factor, the row of the table that `index` names."""
        rows = index[:, None] if len(table) > 1 else np.int64(0)
        self.kernels["add_rows"](table, rows, x.shape[1], np.float32(1) if factor is None else factor, x)
        return x

    def squares(self, count: int, pixels: int) -> Array:
        """Make zeros of the shape of a batch: each element adds up its own squares, and no batch needs their sum."""
        return self.xp.zeros((count, pixels), dtype=np.float32)

    def difference(self, data: Array, model: Array, out: Array, squares: Array) -> Array:
        """Data minus model, and its squares."""
        self.kernels["difference"](data, model, out, squares[: len(data)])
        return out

    def pull(self, hidden: Array, pull: Array) -> Array:
        """Add pull · h (1 - h) to h, and give what was added."""
        pulls = self.xp.empty(hidden.shape, dtype=np.float32)
        self.kernels["pull"](pull, hidden, pulls)
        return pulls

    def update(self, parameter: Array, increment: Array, decay: float = 0.0) -> None:
        """Decay a parameter by its increment, and add that."""
        self.kernels["update"](np.float32(decay), parameter, increment)

    def momentum(self, parameter: Array, increment: Array, gradient: Array, rate: float, momentum: float) -> None:
        """Take a step."""
        self.kernels["momentum"](gradient, np.float32(rate), np.float32(momentum), parameter, increment)


class _DeviceStream(RandomStream):
    """NumPy's Philox numbers, made by kernels."""

    def __init__(self, kernels: CupyKernels, seed: np.random.SeedSequence, start: int = 0) -> None:
        self._kernels = kernels
        self._key = tuple(seed.generate_state(2, np.uint64))
        # Numbers drawn so far.
        self.position = PHILOX_STEP * start

    def launch(self, name: str, count: int, *arrays: Any) -> None:
        """Launch a kernel that draws so many numbers."""
        threads = -(-(self.position % PHILOX_STEP + count) // PHILOX_STEP)
        self._kernels.kernels[name](*self._key, np.uint64(self.position), count, *arrays, size=threads)
        self.position += count

    def uniform(self, out: Array) -> None:
        self.launch("uniform", out.size, out)

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        out = self._kernels.xp.empty(shape, dtype=np.float32)
        self.uniform(out)
        return out

    def normal(self, out: Array) -> None:
        pairs = (out.size + 1) // 2
        self._kernels.kernels["normal"](self.uniforms((2 * pairs,)), pairs, out.size, out, size=pairs)


class _DeviceStack(SparseStack):
    """Sparse matrices one below the other on the device, applied by one gather."""

    def __init__(self, kernels: CupyKernels, matrices: Sequence[scipy.sparse.csr_matrix | None]) -> None:
        import scipy.sparse

        pixels = next((each.shape[0] for each in matrices if each is not None), 0)
        identity = scipy.sparse.identity(pixels, dtype=np.float32, format="csr")
        super().__init__([identity if each is None else each for each in matrices])
        self._kernels, self._pixels = kernels, pixels
        stacked: Any = scipy.sparse.vstack(self.matrices, format="csr")  # type: ignore[call-overload]
        stacked.sort_indices()
        parts = (stacked.indptr.astype(np.int32), stacked.indices.astype(np.int32), stacked.data.astype(np.float32))
        self._arrays = tuple(kernels.xp.asarray(part) for part in parts)

    def _gather(
        self, images: Array, out: Array | None, *, count: int = 0, index: Any = None, sign: int = 0, first: int = 0
    ) -> Array:
        xp = self._kernels.xp
        shape = (count, *images.shape) if count else images.shape
        out = xp.empty(shape, dtype=np.float32) if out is None else out
        index = self._kernels.nothing if index is None else xp.asarray(index)
        images = xp.ascontiguousarray(images)
        stack = len(self.matrices)
        self._kernels.kernels["gather"](
            images, *self._arrays, stack, self._pixels, len(images), index, sign, first, out
        )
        return out

    def one(self, images: Array, s: int) -> Array:
        return self._gather(images, None, first=s)

    def each(self, images: Array, index: Array, out: Array | None = None) -> Array:
        return self._gather(images, out, index=index, sign=1)

    def all(self, images: Array, out: Array | None = None) -> Array:
        return self._gather(images, out, count=len(self.matrices))

    def copies(self, images: Array) -> Iterator[Array]:
        return (self.one(images, s) for s in range(len(self.matrices)))

    def turned(self, images: Array) -> Array:
        return self.all(images)

    def room(self, count: int) -> Array:
        return self._kernels.xp.empty((len(self.matrices), count, self._pixels), dtype=np.float32)

    def total(self, turned: Array, out: Array | None = None) -> Array:
        out = self._kernels.xp.empty(turned.shape[1:], dtype=np.float32) if out is None else out
        count = turned.shape[1]
        self._kernels.kernels["total"](turned, *self._arrays, len(self.matrices), self._pixels, count, out)
        return out

    def relative(self, images: Array, index: Array) -> Array:
        return self._gather(images, None, count=len(self.matrices), index=index, sign=-1)
