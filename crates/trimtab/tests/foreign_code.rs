//! Libraries and drivers that end a process in a later call: the next process does not run into the same. This test program starts
//! itself again with a role in its environment.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its processes has failed")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{kept_in, numbers};
use trimtab::advanced::core::{
    Bench, Decline, Device, DeviceFacts, Failure, Fingerprint, Habits, KernelId, KernelInfo, LaunchError,
    Nanos, Patience, Point, Problem, Rates, Space, State, Transfers, Work,
};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::operands::{Batch, Executor, HostBuffer, Wait};
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Builder, Offload, Runtime};
use trimtab_testing::variable;

const ROLE: &str = "TRIMTAB_TEST_ROLE";
const DIR: &str = "TRIMTAB_TEST_DIR";
const PRODUCT: &str = "matmul:f32:8x8x8";

/// A BLAS that aborts while there is a file of that name, and does not come back while there is another.
const BLAS: &str = r#"
use std::path::PathBuf;
fn there(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("TRIMTAB_TEST_DIR")?).join(name);
    path.exists().then_some(path)
}
macro_rules! gemm { ($name:ident, $t:ty) => {
    #[no_mangle]
    pub extern "C" fn $name(_: i32, ta: i32, tb: i32, m: i32, n: i32, k: i32, alpha: $t, a: *const $t, lda: i32,
        b: *const $t, ldb: i32, _: $t, c: *mut $t, ldc: i32) {
        if there("dies").is_some() { std::process::abort(); }
        while let Some(path) = there("waits") {
            let _ = std::fs::write(path.with_file_name("inside"), "");
            std::thread::yield_now();
        }
        let at = |order: i32, row: i32, column: i32, lead: i32| {
            (if order == 111 { row * lead + column } else { column * lead + row }) as usize
        };
        for i in 0..m { for j in 0..n { unsafe{
            let sum: $t = (0..k).map(|p| *a.add(at(ta, i, p, lda)) * *b.add(at(tb, p, j, ldb))).sum();
            *c.add((i * ldc + j) as usize) = alpha * sum;
        } } }
    }
} }
gemm!(cblas_sgemm, f32);
gemm!(cblas_dgemm, f64);
"#;

/// That library, built with the compiler that built this test.
fn library(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("blas.rs"), dir.join("libblas.so"));
    std::fs::write(&source, BLAS).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2021", "--crate-type", "cdylib", "-O", "-o"]).arg(&library).arg(&source);
    assert!(rustc.status().unwrap().success());
    library
}

/// A device whose driver ends the process while there is a file.
struct Driver {
    processor: CpuDevice,
    facts: DeviceFacts,
    dies: PathBuf,
    transfers: OnceLock<Option<Transfers>>,
}

impl Driver {
    fn new(dir: &Path) -> Driver {
        let processor = CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() });
        let mut facts = processor.facts().clone();
        facts.id = "driver".to_string();
        facts.fingerprint = Fingerprint("a driver".to_string());
        facts.habits = Habits { first_launch_compiles: false, noisy: false, ..Habits::GPU };
        Driver { processor, facts, dies: dir.join("dies"), transfers: OnceLock::new() }
    }
}

impl Executor for Driver {
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        if self.dies.exists() {
            std::process::abort();
        }
        let (wait, watch) = (batch.wait, Stopwatch::start());
        HostBuffer::run(batch, |launch, inputs, out| {
            self.processor.launch(launch.kernel, launch.problem, launch.point, inputs, out)
        })?;
        Ok((wait == Wait::Timed).then(|| watch.elapsed()))
    }
}

impl Device for Driver {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn rates(&self) -> Rates {
        self.processor.rates()
    }
    fn state(&self) -> State {
        self.processor.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.processor.kernels()
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.processor.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.processor.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.processor.work(kernel, problem, point)
    }
    fn transfers(&self) -> Option<Transfers> {
        *self.transfers.get_or_init(|| trimtab::device::transfers(self).ok())
    }
    fn verify(&self, kernel: KernelId, p: &Problem, point: &Point, limit: Nanos) -> Result<(), Failure> {
        trimtab::device::verify(self, &self.processor, kernel, p, point, limit)
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        trimtab::device::bench(self, &self.processor, problem, limit)
    }
}

fn builder(dir: &Path) -> Builder {
    kept_in(&dir.join("wisdom")).patience(Patience::Estimate).settle(false)
}

/// A runtime that calls the library.
fn with_library(dir: &Path) -> Runtime {
    builder(dir).device("cpu").blas(dir.join("libblas.so")).force("cpu.matmul.cblas").build().unwrap()
}

/// A runtime that leaves everything to the device it can.
fn with_driver(dir: &Path) -> Runtime {
    let offload = Offload { all: Some(0), ..Offload::default() };
    builder(dir).no_blas().offload(offload).add_device(Driver::new(dir)).build().unwrap()
}

fn product(rt: &Runtime) -> Vec<f32> {
    rt.matmul(&numbers::<f32>(&[8, 8]), &numbers(&[8, 8])).unwrap().to_vec()
}

fn chain(rt: &Runtime) -> Vec<f32> {
    let x = numbers::<f32>(&[8, 8]);
    (rt.lazy(&x).matmul(&x) + 1.0).sum(1).eval().unwrap().to_vec()
}

/// Not a test of its own: what the children do. Without a role it does nothing.
#[test]
fn a_child_plays_its_role() {
    let (Some(role), Some(dir)) = (variable(ROLE), variable(DIR)) else { return };
    let dir = Path::new(&dir);
    let (rt, call): (Runtime, fn(&Runtime) -> Vec<f32>) = match role.as_str() {
        "library" | "stranger" => (with_library(dir), product),
        "driver" => (with_driver(dir), product),
        "driver in an expression" => (with_driver(dir), chain),
        other => panic!("no role {other}"),
    };
    let first = call(&rt);
    assert_eq!(first, call(&rt));
    if role == "stranger" && !dir.join("harmless").exists() {
        std::fs::write(dir.join("waits"), "").unwrap();
        let inside = dir.join("inside");
        // A thread of the program's own, in the middle of a call of somebody else's.
        std::thread::spawn(move || {
            while !inside.exists() {
                std::thread::yield_now();
            }
            std::process::abort();
        });
    } else if !dir.join("harmless").exists() {
        std::fs::write(dir.join("dies"), "").unwrap();
    }
    assert_eq!(first, call(&rt));
}

/// Whether a child that plays a role comes to its end.
fn survives(role: &str, dir: &Path) -> bool {
    for name in ["waits", "inside"] {
        let _ = std::fs::remove_file(dir.join(name));
    }
    let mut command = trimtab_testing::child("a_child_plays_its_role").unwrap();
    command.env(ROLE, role).env(DIR, dir).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

/// Why the kernel that would be chosen otherwise is out.
fn out(rt: &Runtime, problem: &str, device: &str) -> Vec<String> {
    let decision = rt.planner().survey(&rt.explain(&problem.parse().unwrap()).unwrap());
    let its = decision.rivals.iter().filter(|rival| &*rival.device_id == device);
    its.filter_map(trimtab::advanced::plan::Rival::out_because)
        .filter(|why| why.contains("ended a"))
        .collect()
}

#[test]
fn a_library_that_ends_a_process_in_a_later_call_is_out_in_the_next() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path());
    assert!(!survives("library", dir.path()), "its third call ends it");
    // It would end whoever starts it.
    let rt = with_library(dir.path());
    let x = numbers::<f32>(&[8, 8]);
    let expected: f32 = (0..8).map(|k| x.get(&[3, k]).unwrap() * x.get(&[k, 4]).unwrap()).sum();
    assert_eq!(product(&rt)[3 * 8 + 4], expected);
    let why = out(&rt, PRODUCT, "cpu");
    assert!(why.iter().any(|why| why.contains("signal 6 ended a process in a live call of it")), "{why:?}");
    assert!(survives("library", dir.path()));
}

#[test]
fn a_driver_that_ends_a_process_in_a_later_call_is_out_in_the_next() {
    for role in ["driver", "driver in an expression"] {
        let dir = tempfile::tempdir().unwrap();
        assert!(!survives(role, dir.path()), "{role}: its third call ends it");
        std::fs::write(dir.path().join("harmless"), "").unwrap();
        std::fs::remove_file(dir.path().join("dies")).unwrap();
        let rt = with_driver(dir.path());
        let crashed = |fact: &trimtab::advanced::wisdom::Fact| {
            let device = fact.key.device == "a driver";
            device && format!("{:?}", fact.outcome).contains("signal 6 ended a process")
        };
        let facts = rt.wisdom().all_facts();
        assert!(facts.iter().any(crashed), "{role}: {facts:?}");
    }
}

#[test]
fn a_programs_own_crash_beside_a_library_bars_it_only_the_second_time() {
    let dir = tempfile::tempdir().unwrap();
    library(dir.path());
    assert!(!survives("stranger", dir.path()), "the program ends itself");
    let rt = with_library(dir.path());
    let _ = std::fs::remove_file(dir.path().join("waits"));
    product(&rt);
    let decision = rt.explain(&PRODUCT.parse().unwrap()).unwrap();
    assert_eq!(&*decision.winner().unwrap().name, "cpu.matmul.cblas", "once may be an accident");
    drop(rt);
    assert!(!survives("stranger", dir.path()));
    let _ = std::fs::remove_file(dir.path().join("waits"));
    let rt = with_library(dir.path());
    product(&rt);
    let why = out(&rt, PRODUCT, "cpu");
    assert!(why.iter().any(|why| why.contains("ended a second process while")), "{why:?}");
}

#[test]
fn a_program_that_runs_our_own_kernels_only_keeps_its_signals_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = || {
        let wisdom = std::fs::read_dir(dir.path().join("wisdom")).unwrap();
        let names = wisdom.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("running-")).count()
    };
    let rt = builder(dir.path()).device("cpu").no_blas().build().unwrap();
    rt.neg(&numbers::<f32>(&[100])).unwrap();
    assert_eq!(files(), 0);
    drop(rt);
    let rt = builder(dir.path()).device("cpu").force("cpu.matmul.gemm").build().unwrap();
    product(&rt);
    assert_eq!(files(), 1, "a library ran");
    drop(rt);
    assert_eq!(files(), 0);
}
