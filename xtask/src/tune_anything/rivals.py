"""The other tuners of `cargo xtask bench tune-anything`, and one harness that measures what every tuner found.

    rivals.py tune TOOL EXAMPLE SEED EVALS EXAMPLES    prints {"point": …, "seconds": …, "evaluations": …}
    rivals.py measure EXAMPLE ROUNDS EXAMPLES          reads a list of points from standard input, prints their times in seconds

TOOL is kernel_tuner or optuna, EXAMPLE stencil, tiles or flags, EXAMPLES the directory examples/tune. Points that break a constraint, and
points Optuna asks for a second time, cost it no evaluation.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib

import numpy as np


def space_of(example, examples):
    with open(os.path.join(examples, example, "space.toml"), "rb") as file:
        written = tomllib.load(file)
    parameters = {}
    for name, given in written["parameters"].items():
        if given == "flag":
            parameters[name] = [0, 1]
        elif isinstance(given, list):
            parameters[name] = given
        elif "values" in given:
            parameters[name] = given["values"]
        else:
            values, value = [], given["from"]
            while value <= given["to"]:
                values.append(value)
                value = value * given["times"] if "times" in given else value + given.get("step", 1)
            parameters[name] = values
    return parameters, written.get("constraints", []), written


def legal(point, constraints):
    return all(eval(constraint, {}, dict(point)) for constraint in constraints)


class Stencil:
    """stencil.cl on the first OpenCL device, by its events."""

    def __init__(self, examples):
        import pyopencl as cl

        self.cl = cl
        self.n = 1024
        self.source = open(os.path.join(examples, "stencil", "stencil.cl")).read()
        self.context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.given = np.random.default_rng(1).uniform(-1, 1, (self.n, self.n)).astype(np.float32)
        flags = cl.mem_flags
        self.buffers = [
            cl.Buffer(self.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=self.given),
            cl.Buffer(self.context, flags.READ_WRITE, self.given.nbytes),
        ]
        padded = np.pad(self.given, 2)
        at = lambda y, x: padded[2 + y : 2 + y + self.n, 2 + x : 2 + x + self.n]
        self.expected = 0.5 * at(0, 0)
        for r in (1, 2):
            self.expected = self.expected + (at(-r, 0) + at(r, 0) + at(0, -r) + at(0, r)) * (0.0625 / r)

    def build(self, point):
        options = [f"-D{name}={int(value)}" for name, value in point.items()]
        kernel = self.cl.Program(self.context, self.source).build(options).stencil
        columns, rows = point["tx"] * point["px"], point["ty"] * point["py"]
        groups = (-(-self.n // columns), -(-self.n // rows))
        return kernel, (groups[0] * point["tx"], groups[1] * point["ty"]), (point["tx"], point["ty"])

    def run(self, built):
        kernel, items, group = built
        event = kernel(self.queue, items, group, *self.buffers, np.int32(self.n))
        event.wait()
        return (event.profile.end - event.profile.start) / 1e9

    def check(self, built):
        self.run(built)
        got = np.empty_like(self.given)
        self.cl.enqueue_copy(self.queue, got, self.buffers[1])
        if not np.allclose(got, self.expected, atol=1e-3):
            raise ValueError("wrong result")

    def kernel_tuner(self, tune, parameters, constraints):
        return tune(
            "stencil",
            self.source,
            (self.n, self.n),
            [self.given, np.zeros_like(self.given), np.int32(self.n)],
            parameters,
            grid_div_x=["tx", "px"],
            grid_div_y=["ty", "py"],
            block_size_names=["tx", "ty"],
            restrictions=constraints,
            answer=[None, self.expected.astype(np.float32), None],
            atol=1e-3,
            lang="OpenCL",
        )


class Program:
    """A C program that is compiled for each point; `command` gives the compiler's words."""

    def __init__(self, examples):
        self.dir = os.path.join(examples, self.name)
        self.made = tempfile.mkdtemp()
        self.count = itertools.count()

    def build(self, point):
        out = os.path.join(self.made, str(next(self.count)))
        subprocess.run(self.command(point) + ["-o", out] + self.files, cwd=self.dir, check=True, capture_output=True)
        return out


class Tiles(Program):
    name, files = "tiles", ["matmul.c", "-lm"]

    def command(self, point):
        words = ["gcc", "-O3", "-march=native"] + ["-funroll-loops"] * int(point["unroll"])
        return words + [f"-DTILE_{axis}={point['t' + axis.lower()]}" for axis in "IJK"]

    def run(self, built):
        return float(subprocess.run([built], check=True, capture_output=True, text=True).stdout.split()[0]) / 1e3

    def check(self, built):
        self.run(built)  # It checks itself.

    def kernel_tuner(self, tune, parameters, constraints):
        # Flags of the compiler are the same for every point there: unrolling is asked for in the text. What is timed is what main times.
        source = """
            #if unroll
            #pragma GCC optimize("unroll-loops")
            #endif
            #define TILE_I ti
            #define TILE_J tj
            #define TILE_K tk
            #define main program
            #include "%s"
            #undef main
            extern "C" float measured(float *unused) {
                for (int i = 0; i < N; i++)
                    for (int j = 0; j < N; j++) a[i][j] = (i * 7 + j) %% 11 - 5, b[i][j] = (i + j * 3) %% 13 - 6;
                double best = 1e30;
                for (int repeat = 0; repeat < 5; repeat++) {
                    double start = now_ms();
                    product();
                    double took = now_ms() - start;
                    if (took < best) best = took;
                }
                return (float)best;
            }""" % os.path.join(self.dir, "matmul.c")
        return tune(
            "measured", source, 1, [np.zeros(1, np.float32)], parameters, restrictions=constraints, lang="C", compiler="g++",
            compiler_options=["-O3", "-march=native"], iterations=3,
        )


class Flags(Program):
    name, files = "flags", ["nbody.c", "-lm"]

    def command(self, point):
        words = {"native": "-march=native", "fast": "-ffast-math", "unroll": "-funroll-loops", "lto": "-flto"}
        return ["gcc", f"-O{point['level']}", point["frame"]] + [word for name, word in words.items() if point[name]]

    def run(self, built):
        start = time.perf_counter()
        subprocess.run([built], check=True, capture_output=True)
        return time.perf_counter() - start

    def check(self, built):
        self.run(built)


EXAMPLES = {"stencil": Stencil, "tiles": Tiles, "flags": Flags}


def tune(tool, example, seed, evals, examples):
    parameters, constraints, _ = space_of(example, examples)
    harness = EXAMPLES[example](examples)
    if tool == "kernel_tuner":
        import kernel_tuner

        def call(*args, **more):
            options = {"max_fevals": evals}
            strategy = "adaptive_tabu_greywolf"
            return kernel_tuner.tune_kernel(*args, **more, strategy=strategy, strategy_options=options, seed=seed, quiet=True)

        os.chdir(tempfile.mkdtemp())
        start = time.perf_counter()
        results, _ = harness.kernel_tuner(call, parameters, constraints)
        seconds = time.perf_counter() - start
        ran = [result for result in results if isinstance(result.get("time"), (int, float))]
        best = min(ran, key=lambda result: result["time"])
        return {"point": {name: best[name] for name in parameters}, "seconds": seconds, "evaluations": len(results)}
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    known = {}

    def objective(trial):
        point = {name: trial.suggest_categorical(name, values) for name, values in parameters.items()}
        if not legal(point, constraints):
            raise optuna.TrialPruned()
        key = tuple(point.items())
        if key not in known:
            try:
                built = harness.build(point)
                harness.check(built)
                known[key] = min(harness.run(built) for _ in range(3))
            except Exception:
                known[key] = float("inf")
        if known[key] == float("inf"):
            raise optuna.TrialPruned()
        return known[key]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    start = time.perf_counter()
    for _ in range(20 * evals):
        if len(known) >= evals:
            break
        study.optimize(objective, n_trials=1)
    seconds = time.perf_counter() - start
    return {"point": study.best_params, "seconds": seconds, "evaluations": len(known)}


def measure(example, rounds, examples, points):
    harness = EXAMPLES[example](examples)
    built = [harness.build(point) for point in points]
    times = [float("inf")] * len(points)
    for each in built:
        harness.check(each)
    for _ in range(rounds):
        for at, each in enumerate(built):
            times[at] = min([times[at]] + [harness.run(each) for _ in range(3)])
    return times


def plain(value):
    return value.item() if hasattr(value, "item") else value


if sys.argv[1] == "tune":
    told = tune(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    told["point"] = {name: plain(value) for name, value in told["point"].items()}
else:
    told = measure(sys.argv[2], int(sys.argv[3]), sys.argv[4], json.load(sys.stdin))
print("TOLD " + json.dumps(told))
