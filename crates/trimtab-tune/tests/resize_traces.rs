//! Live resize on recorded times of real kernels: from every value of the ladder it ends near the best and never swings.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its recording has failed")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use trimtab_core::Nanos;
use trimtab_tune::{Margins, Observed, Resize, Stopwatch, median};

/// Times of one kernel at each value of a setting, in recorded order.
type Trace = BTreeMap<u32, Vec<f64>>;

const FILE: &str = "tests/data/resize_traces.csv";
/// Rounds recorded, of two launches at each value.
const REPEATS: usize = 32;
/// Launches replayed: more than any search takes.
const LAUNCHES: usize = 1_500;

/// How a controller did on a trace: the share of the best throughput it ended with, the share of it that was in force
/// after eight launches, and its changes.
struct Done {
    share: f64,
    share_after_8: f64,
    start_share: f64,
    changes: u32,
    searches: u32,
    swung: bool,
}

fn replay(trace: &Trace, start: u32) -> Done {
    let values: Vec<u32> = trace.keys().copied().collect();
    let speed = |value: u32| 1.0 / median(&trace[&value]).unwrap();
    let best = values.iter().map(|&value| speed(value)).fold(0.0, f64::max);
    let mut resize = Resize::new(&values, start, Margins::default());
    let mut played: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut had, mut after_8) = (vec![start], start);
    for launch in 1..=LAUNCHES {
        let times = &trace[&resize.value()];
        let nth = played.entry(resize.value()).or_default();
        let busy = Nanos(times[*nth % times.len()] as u64);
        *nth += 1;
        had.extend(resize.observe(Observed { work: 1.0, busy, idle: Nanos(0) }));
        if launch == 8 {
            after_8 = resize.value();
        }
    }
    Done {
        share: speed(resize.value()) / best,
        share_after_8: speed(after_8) / best,
        start_share: speed(start) / best,
        changes: resize.changes(),
        searches: resize.searches(),
        swung: had.windows(4).any(|four| four[0] == four[2] && four[1] == four[3]),
    }
}

fn recorded() -> BTreeMap<String, Trace> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap();
    let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(',').unwrap();
        let (value, times) = rest.split_once(',').unwrap();
        let times = times.split(' ').map(|time| time.parse().unwrap()).collect();
        traces.entry(name.to_string()).or_default().insert(value.parse().unwrap(), times);
    }
    traces
}

#[test]
fn on_recorded_kernels_it_ends_near_the_best_from_every_value_and_never_swings() {
    let traces = recorded();
    assert!(traces.len() >= 3);
    for (name, trace) in &traces {
        for &start in trace.keys() {
            let done = replay(trace, start);
            assert!(done.share >= 0.9, "{name} from {start}: {}", done.share);
            assert!(
                done.changes as usize <= 2 * trace.len() + 2 && done.searches == 1,
                "{name} from {start}"
            );
            assert!(!done.swung, "{name} from {start}");
        }
    }
}

/// A kernel with its setting, the values of the setting, and how it is launched.
type Kernel = (&'static str, Vec<u32>, Box<dyn FnMut(u32)>);

/// Tiles of a transpose, tiles of a matrix product, threads of a sum: what is recorded.
fn kernels() -> Vec<Kernel> {
    let side = 1_024;
    let (from, mut to) = (vec![1.0f32; side * side], vec![0.0f32; side * side]);
    let transpose = move |tile: u32| {
        let tile = tile as usize;
        for row in (0..side).step_by(tile) {
            for column in (0..side).step_by(tile) {
                for y in row..row + tile {
                    for x in column..column + tile {
                        to[x * side + y] = from[y * side + x];
                    }
                }
            }
        }
        black_box(&to);
    };
    let n = 192;
    let (a, b, mut c) = (vec![1.0f32; n * n], vec![1.0f32; n * n], vec![0.0f32; n * n]);
    let product = move |tile: u32| {
        let tile = tile as usize;
        c.fill(0.0);
        for depth in (0..n).step_by(tile) {
            for column in (0..n).step_by(tile) {
                for y in 0..n {
                    for k in depth..(depth + tile).min(n) {
                        let scale = a[y * n + k];
                        for x in column..(column + tile).min(n) {
                            c[y * n + x] += scale * b[k * n + x];
                        }
                    }
                }
            }
        }
        black_box(&c);
    };
    let numbers = vec![1.0f32; 1 << 20];
    let sum = move |threads: u32| {
        let parts = numbers.chunks(numbers.len().div_ceil(threads as usize));
        let total: f32 = std::thread::scope(|scope| {
            let sums: Vec<_> = parts.map(|part| scope.spawn(move || part.iter().sum::<f32>())).collect();
            sums.into_iter().map(|sum| sum.join().unwrap()).sum()
        });
        black_box(total);
    };
    let powers = |from: u32, to: u32| (from..=to).map(|power| 1 << power).collect();
    vec![
        ("transpose-1024 tile", powers(0, 10), Box::new(transpose)),
        ("matmul-192 tile", vec![1, 2, 4, 8, 16, 32, 64, 96, 192], Box::new(product)),
        ("sum-1M threads", powers(0, 6), Box::new(sum)),
    ]
}

#[test]
#[ignore = "records the traces anew on this machine"]
fn traces_are_recorded_anew() {
    let mut text =
        String::from("# kernel and setting, value, nanoseconds of launches in the order they were made\n");
    for (name, values, mut kernel) in kernels() {
        let mut times = vec![Vec::new(); values.len()];
        // In turns: what else the machine does meets every value alike.
        for _ in 0..REPEATS {
            for (&value, times) in values.iter().zip(&mut times) {
                // The first launch after another value is what a change costs, and is recorded as the first of two.
                for _ in 0..2 {
                    let stopwatch = Stopwatch::start();
                    kernel(value);
                    times.push(stopwatch.elapsed().0.to_string());
                }
            }
        }
        for (value, times) in values.iter().zip(times) {
            text += &format!("{name},{value},{}\n", times.join(" "));
        }
    }
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE), text).unwrap();
}

/// Lines of a space along one axis, all others held, with times from its repeats.
fn lines(space: &Path, axis: &str) -> Vec<Trace> {
    let read = |path: &str| {
        let output = Command::new("gzip").args(["-dc", path]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let path = space.to_str().unwrap();
    let (table, repeats) = (read(path), read(&path.replace(".csv.gz", ".reps.csv.gz")));
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|known| *known == name);
    let (Some(axis), Some(status), Some(time)) = (column(axis), column("status"), column("time_ms")) else {
        return Vec::new();
    };
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let mut lines: BTreeMap<Vec<&str>, Trace> = BTreeMap::new();
    for line in repeats.lines().skip(1) {
        let mut numbers = line.split(',');
        let row = &rows[numbers.next().unwrap().parse::<usize>().unwrap()];
        if row[status] != "ok" {
            continue;
        }
        let held = (0..status).filter(|at| *at != axis).map(|at| row[at]).collect();
        let ns = row[time].parse::<f64>().unwrap() * 1e6;
        let times = numbers.map(|repeat| repeat.parse::<f64>().unwrap() * 1e-4 * ns).collect();
        lines.entry(held).or_default().insert(row[axis].parse().unwrap(), times);
    }
    lines.into_values().filter(|trace| trace.len() >= 3).collect()
}

#[test]
fn on_recorded_gpus_it_ends_near_the_best() {
    let Some(data) = trimtab_testing::data("live resize on recorded GPUs") else { return };
    let mut spaces: Vec<_> = std::fs::read_dir(data.join("spaces")).unwrap().flatten().collect();
    spaces.sort_by_key(|entry| entry.file_name());
    let (mut total, mut near_total, mut worse, mut escaped_total) = (0, 0, 0, 0);
    for space in spaces {
        let name = space.file_name().into_string().unwrap();
        let has_repeats = space.path().with_file_name(name.replace(".csv.gz", ".reps.csv.gz")).exists();
        if name.contains(".reps.") || !has_repeats {
            continue;
        }
        for axis in ["block_size_x", "block_size_y", "tile_size_x", "MWG", "MDIMC", "NWG"] {
            let (mut runs, mut near, mut slow, mut escaped, mut searches, mut worst) =
                (0, 0, 0, 0, 0, 1.0f64);
            for trace in lines(&space.path(), axis) {
                for &start in trace.keys() {
                    let done = replay(&trace, start);
                    let several = done.searches as usize;
                    assert!(done.changes as usize <= (2 * trace.len() + 2) * several, "{name} {axis}");
                    assert!(!done.swung || several > 1, "{name} {axis}");
                    runs += 1;
                    near += usize::from(done.share >= 0.9);
                    searches += usize::from(several > 1);
                    worst = worst.min(done.share);
                    if done.start_share <= 0.5 {
                        slow += 1;
                        escaped += usize::from(done.share_after_8 >= 1.5 * done.start_share);
                    }
                }
            }
            if runs > 0 {
                println!(
                    "{name} {axis}: {runs} runs, {near} within 10 % (worst {worst:.2}), {searches} searched again; \
                     {escaped} of {slow} starts 2× too slow left within 8 launches"
                );
            }
            (total, near_total) = (total + runs, near_total + near);
            (worse, escaped_total) = (worse + slow, escaped_total + escaped);
        }
    }
    println!("{near_total} of {total} within 10 %; {escaped_total} of {worse} left within 8 launches");
    assert!(near_total * 100 >= total * 97 && escaped_total * 100 >= worse * 90);
}
