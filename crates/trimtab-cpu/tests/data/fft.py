"""Writes fft.csv beside it: what NumPy's transforms give where their definition has corners (sign, scale, lengths, half spectra).

One line a transform: the problem, the numbers of the operand, those of the result; of complex numbers real and imaginary parts in turn.
Run it with any NumPy after a change; the tests read the file and need none.
"""

import pathlib

import numpy as np

# One, two, primes, powers of two and their neighbours, even and odd half spectra, batches, several axes.
SHAPES = [
    ((1,), 1), ((2,), 1), ((3,), 1), ((4,), 1), ((5,), 1), ((7,), 1), ((8,), 1), ((9,), 1), ((15,), 1), ((16,), 1),
    ((17,), 1), ((67,), 1), ((2, 6), 1), ((3, 1), 1), ((2, 5), 1), ((3, 4), 2), ((4, 3), 2), ((2, 3, 5), 2), ((1, 8), 2),
    ((2, 3, 4), 3), ((2, 2, 3, 2), 3), ((5, 1), 2),
]


def parts(numbers):
    numbers = np.ravel(numbers)
    if np.iscomplexobj(numbers):
        numbers = np.stack([numbers.real, numbers.imag], axis=-1).ravel()
    return " ".join(repr(float(number)) for number in numbers)


def main():
    random = np.random.default_rng(20240501)
    lines = []
    for shape, axes in SHAPES:
        over = tuple(range(-axes, 0))
        # Three decimals: the same numbers in single and in double precision up to a rounding, and lines that can be read.
        real = np.round(random.uniform(-4, 4, shape), 3)
        number = real + 1j * np.round(random.uniform(-4, 4, shape), 3)
        # Half a spectrum with imaginary parts that real numbers cannot have: they are not read.
        half = shape[:-1] + (shape[-1] // 2 + 1,)
        spectrum = np.round(random.uniform(-4, 4, half), 3) + 1j * np.round(random.uniform(-4, 4, half), 3)
        sizes = [size for size in shape[-axes:]]
        text = "x".join(str(size) for size in shape) + (f":{axes}d" if axes > 1 else "")
        lines.append(("fft.forward:complex128:" + text, number, np.fft.fftn(number, axes=over)))
        lines.append(("fft.inverse:complex128:" + text, number, np.fft.ifftn(number, axes=over)))
        lines.append(("fft.real:f64:" + text, real, np.fft.rfftn(real, axes=over)))
        lines.append(("fft.inverse_real:complex128:" + text, spectrum, np.fft.irfftn(spectrum, s=sizes, axes=over)))
    rows = [f"{text},{parts(given)},{parts(made)}" for text, given, made in lines]
    head = f"# NumPy {np.__version__}: problem,operand,result"
    pathlib.Path(__file__).with_suffix(".csv").write_text("\n".join([head, *rows]) + "\n")


if __name__ == "__main__":
    main()
