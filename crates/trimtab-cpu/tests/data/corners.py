"""Writes corners.txt: what NumPy says where definitions have corners (ties, NaN, negative zero, duplicates, wrapping).

Run it with NumPy 2 in this folder: `python3 corners.py > corners.txt`. Tests read the file and need no NumPy.
A line is a problem, its operands and the result, separated by tabs; elements by spaces.
"""

import numpy as np

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "i8": np.int8, "bool": np.bool_}
NAN, INF = float("nan"), float("inf")


def written(values):
    values = np.asarray(values).ravel()
    return " ".join(repr(v.item() if not isinstance(v, np.bool_) else int(v)) for v in values)


def line(problem, inputs, out):
    print("\t".join([problem] + [written(i) for i in inputs] + [written(out)]))


# Ties, both zeros, what is not a number at either end and in the middle, infinities.
ODD = [
    [0.0, -0.0, NAN, 1.0, 1.0, -INF, INF, -0.0, NAN, -1.0, 0.0, 2.0, 1.0],
    [NAN, 3.0, 3.0, 3.0],
    [3.0, 3.0, NAN],
    [NAN, NAN],
    [-0.0, 0.0, -0.0],
    [INF, -INF, INF],
    [5.0],
]
for name in ["f32", "f64"]:
    for row in ODD:
        x = np.array(row, DTYPES[name])
        n = len(x)
        line(f"sort:{name}:{n}", [x], np.sort(x))
        line(f"sort:{name}:{n}:descending", [x], -np.sort(-x))
        line(f"arg.sort:{name}:{n}", [x], np.argsort(x, kind="stable"))
        line(f"arg.sort:{name}:{n}:descending", [x], np.argsort(-x, kind="stable"))
        line(f"arg.top:{name}:{n}:count{(n + 1) // 2}", [x], np.argsort(-x, kind="stable")[: (n + 1) // 2])
        line(f"arg.min:{name}:{n}", [x], np.argmin(x))
        line(f"arg.max:{name}:{n}", [x], np.argmax(x))
whole = np.array([3, -7, 3, 2**31 - 1, -(2**31), 3, -7], np.int32)
line("sort:i32:7", [whole], np.sort(whole))
line("arg.sort:i32:7", [whole], np.argsort(whole, kind="stable"))
line("arg.sort:i32:7:descending", [whole], np.argsort(-whole.astype(np.int64), kind="stable"))
line("arg.min:i32:7", [whole], np.argmin(whole))
line("arg.max:i32:7", [whole], np.argmax(whole))

COMPARED = {
    "f32": ([NAN, NAN, 1.0, 0.0, -0.0, INF, -INF, 1e-45, 2.0], [NAN, 1.0, NAN, -0.0, 0.0, INF, INF, 0.0, 1.0]),
    "f64": ([NAN, NAN, 1.0, 0.0, -0.0, INF, -INF, 5e-324, 2.0], [NAN, 1.0, NAN, -0.0, 0.0, INF, INF, 0.0, 1.0]),
    "i32": ([-(2**31), 2**31 - 1, 0, 5], [2**31 - 1, 2**31 - 1, -1, 5]),
    "i64": ([2**53 + 1, -(2**63), 0, 5], [2**53, 2**63 - 1, -1, 5]),
    "u8": ([0, 255, 128], [255, 0, 128]),
    "i8": ([-128, 127, 0], [127, -128, 0]),
}
OPS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
for name, (a, b) in COMPARED.items():
    a, b = np.array(a, DTYPES[name]), np.array(b, DTYPES[name])
    for op, of in OPS.items():
        line(f"mask.{op}:{name}:{len(a)}", [a, b], of(a, b))
        line(f"mask.{op}:{name}:{len(a)}x1,{len(b)}", [a, b], of(a[:, None], b))
        line(f"mask.{op}:{name}:{len(a)},1", [a, b[:1]], of(a, b[:1]))

mask = np.array([True, False, True, False, True, False])
yes, no = np.array([NAN, 1, -0.0, INF, 5, 6], np.float32), np.array([7, NAN, 8, -0.0, -INF, 9], np.float32)
line("mask.where:f32:6", [mask, yes, no], np.where(mask, yes, no))
line("mask.where:f32:6,6,1", [mask, yes, no[1:2]], np.where(mask, yes, no[1:2]))
line("mask.where:f32:6x1,6,6x1", [mask, yes, no], np.where(mask[:, None], yes, no[:, None]))

data = np.array([[0.0, -0.0, NAN], [INF, -INF, 1.0], [2.0, 3.0, 4.0], [5.0, 6.0, 7.0]], np.float32)
for index in ["i32", "i64"]:
    word = ",i32" if index == "i32" else ""
    for axis, places in [(0, [3, 0, 0, -1, -4, 1, 2, 2]), (1, [2, -3, 1, 1])]:
        at = np.array(places, DTYPES[index])
        line(f"gather:f32:4x3:axis{axis},count{len(at)}{word}", [data, at], np.take(data, at, axis))
        shape = list(data.shape)
        shape[axis] = 2
        each = (np.arange(np.prod(shape)).reshape(shape) * 5 % (2 * data.shape[axis]) - data.shape[axis]).astype(DTYPES[index])
        line(f"gather:f32:4x3:axis{axis},count2,each{word}", [data, each], np.take_along_axis(data, each, axis))

for name, size in [("i32", 2**31 - 1), ("i64", 2**63 - 1), ("u8", 255), ("i8", 127), ("f32", 0.5), ("f64", 0.5)]:
    base = np.array([1, 2, size, 4], DTYPES[name])
    # The same place many times, by both of its names, and one that nothing is added to.
    at = np.array([2, -2, 0, 2, -4, 2], np.int64)
    added = np.array([1, 1, 3, 2, 5, 7], DTYPES[name])
    out = base.copy()
    np.add.at(out, at, added)
    line(f"scatter:{name}:4:count6", [base, at, added], out)
    rows = np.arange(12).reshape(4, 3).astype(DTYPES[name])
    more = np.arange(15).reshape(5, 3).astype(DTYPES[name])
    at = np.array([3, 3, -1, 0, 3], np.int32)
    out = rows.copy()
    np.add.at(out, at, more)
    line(f"scatter:{name}:4x3:axis0,count5,i32", [rows, at, more], out)
special = np.array([INF, -INF, NAN, 0.0, -0.0], np.float32)
at, added = np.array([0, 1, 2, 3, 4, 4], np.int64), np.array([-INF, -1.0, 1.0, -0.0, -0.0, -0.0], np.float32)
out = special.copy()
np.add.at(out, at, added)
line("scatter:f32:5:count6", [special, at, added], out)

a, b, c = np.array([[1, 2], [3, NAN]], np.float32), np.array([[-0.0], [5]], np.float32), np.zeros((2, 0), np.float32)
line("concat:f32:2x2,2x1,2x0", [a, b, c], np.concatenate([a, b, c], 1))
line("concat:f32:2x2,1x2:axis0", [a, b.T], np.concatenate([a, b.T], 0))
line("put:f32:5x4,2x2:at1x2,fill", [np.float32(-0.0), a], np.pad(a, [(1, 2), (2, 0)], constant_values=np.float32(-0.0)))
line("put:f32:2x2,2x2:at0x0,fill", [np.float32(9), a], a)
whole = np.arange(24).reshape(2, 3, 4).astype(np.float32)
out = whole.copy()
out[1:2, 1:3, 0:2] = a
line("put:f32:2x3x4,1x2x2:at1x1x0", [whole, a], out)

x = np.array([NAN, -INF, INF, -0.0, 0.0, 0.5, -3, 3], np.float32)
for low, high in [(-1.0, 1.0), (1.0, -1.0), (0.0, 0.0)]:
    line("fused.min(max(a,#0),#1):f32:1x8:all", [x, np.array([low, high], np.float32)], np.clip(x, np.float32(low), np.float32(high)))

# Scans: what is not a number stays, infinities meet, integers wrap; exclusive ones begin with what changes nothing.
LINES = [
    [1.0, NAN, 2.0, -3.0],
    [INF, 1.0, -INF, 2.0],
    [-0.0, 0.0, -0.0],
    [3.0, 0.0, INF, 2.0],
    [5.0],
    [1.0, 2.0, 3.0, 4.0, -10.0, 0.5, 8.0],
]
SCANS = {
    "sum": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -INF),
    "min": (np.minimum, INF),
}
with np.errstate(all="ignore"):
    for name in ["f32", "f64"]:
        for row in LINES:
            x = np.array(row, DTYPES[name])
            for op, (of, start) in SCANS.items():
                whole = of.accumulate(x)
                line(f"scan.{op}:{name}:{len(x)}", [x], whole)
                before = np.concatenate([np.array([start], DTYPES[name]), whole[:-1]])
                line(f"scan.{op}:{name}:{len(x)}:exclusive", [x], before)
    x = np.array([2**31 - 1, 2, -7, 2**30, 3], np.int32)
    for op, (of, _) in SCANS.items():
        line(f"scan.{op}:i32:5", [x], of.accumulate(x, dtype=np.int32))

    # Reductions: what is not a number wins, zeros and infinities meet.
    for name in ["f32", "f64"]:
        for row in LINES + ODD:
            x = np.array(row, DTYPES[name])
            for op, of in [("min", np.min), ("max", np.max), ("sum", np.sum), ("prod", np.prod)]:
                line(f"reduce.{op}:{name}:{len(x)}", [x], of(x))

    # Rows: what has one answer whatever is rounded. Nothing but minus infinity, infinities, what is not a number, one number.
    ROWS = [[0.0, -INF, -INF], [-INF, -INF, -INF], [INF, 1.0, 2.0], [NAN, 1.0, 2.0], [7.0, 7.0, 7.0], [1e30, -1e30, 0.0]]
    for name in ["f32", "f64"]:
        for row in ROWS:
            x = np.array(row, np.float64)
            less = x - x.max()
            total = np.exp(less).sum()
            line(f"rows.softmax:{name}:1x3", [x], np.exp(less) / total)
            line(f"rows.log_softmax:{name}:1x3", [x], less - np.log(total))
            # As SciPy: of infinities the largest itself.
            line(f"rows.logsumexp:{name}:1x3", [x], x.max() if np.isinf(x.max()) else x.max() + np.log(total))
        for row in ROWS[:5]:
            line(f"rows.variance:{name}:1x3", [np.array(row)], np.var(np.array(row)))

    # Windows: what is not a number wins, padding is not looked at.
    for name in ["f32", "f64"]:
        for row in [[1.0, NAN, 2.0, 4.0, -INF], [-INF, -INF, -1.0, INF, 3.0]]:
            x = np.array(row, DTYPES[name])
            inside = [x[max(at - 1, 0) : at + 2] for at in range(5)]
            line(f"pool.max:{name}:1x1x5:window3,pad1", [x], [one.max() for one in inside])
        x = np.array([2.0, 4.0, 6.0, -2.0, 8.0], DTYPES[name])
        inside = [x[at : at + 2] for at in range(4)]
        line(f"pool.mean:{name}:1x1x5:window2", [x], [one.mean() for one in inside])
        line(f"pool.max:{name}:1x1x5:window2,stride2", [x], [x[0:2].max(), x[2:4].max()])
