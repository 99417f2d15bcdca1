//! Much at once: expressions of a million operations, problems without end, 64 threads, and eight processes on one directory.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use support::{builder, fresh, kept_in};
use trimtab::TuneRequest;
use trimtab::advanced::tune::{Rules, Stopwatch};
use trimtab::{Axis, Expression, Tensor};
use trimtab::{Nanos, Patience, Problem};
use trimtab_testing::{NOT_RUN, variable};

/// A stack on which nothing can go a million calls deep, and on which everything else runs.
const SMALL_STACK: usize = 1 << 20;
/// Operations of the longest chain.
const MILLION: usize = 1_000_000;
/// Operations of expressions whose results are compared.
const MANY: usize = 20_000;

fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(SMALL_STACK).spawn(body).unwrap().join().unwrap();
}

#[test]
fn a_chain_of_a_million_operations_is_built_cloned_shown_explained_evaluated_and_dropped() {
    on_a_small_stack(|| {
        let rt = builder().device("cpu").patience(Patience::Off).build().unwrap();
        let chain = (0..MILLION).fold(rt.lazy(&Tensor::from(vec![0, 7])), |value, _| value + 1);
        let copy = chain.clone();
        assert_eq!(format!("{chain:?}"), "Expression<i32>[2] (not computed)");
        let explained = chain.explain().unwrap();
        let operations: usize = explained.launches.iter().map(|launch| launch.operations).sum();
        assert_eq!(operations, MILLION);
        assert!(explained.to_string().lines().count() >= explained.launches.len());
        assert_eq!(copy.to_vec().unwrap(), [MILLION as i32, MILLION as i32 + 7]);
        assert_eq!(format!("{chain:?}"), "Expression<i32>[2] (computed)");
        drop((chain, copy, explained));
        // Nobody computes it, and it is dropped from the middle too.
        let mut middle = None;
        let mut last = rt.lazy(&Tensor::scalar(1.0f32));
        for at in 0..MILLION {
            last = -last;
            if at == MILLION / 2 {
                middle = Some(last.clone());
            }
        }
        drop(last);
        drop(middle);
    });
}

#[test]
fn wide_deep_branching_and_shared_expressions_give_what_arithmetic_gives() {
    on_a_small_stack(|| {
        let rt = builder().device("cpu").build().unwrap();
        let leaves: Vec<Tensor<i32>> = (0..MANY as i32).map(|at| Tensor::from(vec![at, 1])).collect();
        let total = [(0..MANY as i32).sum::<i32>(), MANY as i32];
        let wide = leaves[1..].iter().fold(rt.lazy(&leaves[0]), |sum, leaf| sum + leaf);
        assert_eq!(wide.to_vec().unwrap(), total);
        let mut level: Vec<Expression<i32>> = leaves.iter().map(|leaf| rt.lazy(leaf)).collect();
        while level.len() > 1 {
            level = level.chunks(2).map(|two| two[1..].iter().fold(two[0].clone(), |a, b| a + b)).collect();
        }
        assert_eq!(level[0].to_vec().unwrap(), total);
        // Every operation uses what all of them share, and a number of its own.
        let all = rt.lazy(&leaves[3]).abs();
        let shared = (0..MANY as i32).fold(all.clone(), |sum, at| (sum + &all).maximum(at - 40_000));
        assert_eq!(shared.to_vec().unwrap(), [3 * (MANY as i32 + 1), MANY as i32 + 1]);
        // The same leaf in many places, and twice the same operation, is there once.
        let twice =
            (0..MANY).fold(rt.lazy(&leaves[5]), |value, _| (&value - &leaves[5]) + (&value - &leaves[5]));
        let once = |x: i32, own: i32| x.wrapping_sub(own).wrapping_mul(2);
        let expected = (0..MANY).fold([5, 1], |[a, b], _| [once(a, 5), once(b, 1)]);
        assert_eq!(twice.to_vec().unwrap(), expected);
    });
}

#[test]
fn large_expressions_are_not_all_kept() {
    let rt = builder().device("cpu").patience(Patience::Off).build().unwrap();
    let x = Tensor::from(vec![1.0f32; 4]);
    let chain = |count: usize| (0..count).fold(rt.lazy(&x), |value, _| value.abs());
    let placed = || rt.activity().placed;
    chain(200_000).eval().unwrap();
    let before = placed();
    chain(200_000).eval().unwrap();
    assert_eq!(placed(), before, "one of two hundred thousand is kept");
    // Two of them are more than are kept together: the older goes.
    chain(150_000).eval().unwrap();
    let before = placed();
    chain(150_000).eval().unwrap();
    assert_eq!(placed(), before);
    chain(200_000).eval().unwrap();
    assert_eq!(placed(), before + 1);
    // One that is larger than all that may be kept pushes out nobody.
    let before = placed();
    (0..2).for_each(|_| drop(chain(270_000).eval().unwrap()));
    chain(200_000).eval().unwrap();
    assert_eq!(placed(), before + 2);
}

/// Bytes of this process in memory, where the system tells.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(4096 * text.split_whitespace().nth(1)?.parse::<u64>().ok()?)
}

/// A problem of its own for every number.
fn nth(number: usize) -> Problem {
    let (op, rest) = (["add", "mul", "min", "max"][number % 4], number / 4);
    let (rows, columns) = (2 + rest / 400, 2 + rest % 400);
    format!("elementwise.{op}:f32:{rows}x{columns},{columns}").parse().unwrap()
}

/// Problems planned before the process is expected not to grow any more: more than tables and maps of plans hold.
const FIRST_PROBLEMS: usize = 240_000;
const MORE_PROBLEMS: usize = 100_000;
/// What it may grow by all the same; one kilobyte kept of each problem would be 100 MB.
const MOST_MORE: u64 = 20 << 20;
/// What it may grow by altogether.
const MOST_GROWTH: u64 = 200 << 20;

/// In a process of its own: what other tests take would be counted too.
#[test]
fn a_process_that_meets_ever_new_problems_stops_growing() {
    if resident().is_none() {
        eprintln!("{NOT_RUN} memory of problems without end: the system does not tell what a process uses");
        return;
    }
    let said = said(vec![child("meets problems", Path::new("/")).spawn().unwrap()], &["grew"]);
    let [first, more]: [u64; 2] = {
        let numbers = said[0][0].split_whitespace().filter_map(|word| word.parse().ok());
        numbers.collect::<Vec<u64>>().try_into().unwrap()
    };
    eprintln!("{} MB after the first, {} MB more", first >> 20, more >> 20);
    assert!(more < MOST_MORE && first < MOST_GROWTH, "{first} bytes, then {more}");
}

/// What that process does.
fn meets_problems() {
    let before = resident().unwrap();
    let rt = fresh().no_blas().device("cpu").patience(Patience::Off).build().unwrap();
    let plan = |number: usize| rt.plan(&nth(number)).unwrap();
    for number in 0..FIRST_PROBLEMS {
        plan(number);
    }
    let full = resident().unwrap();
    for number in FIRST_PROBLEMS..FIRST_PROBLEMS + MORE_PROBLEMS {
        plan(number);
    }
    let after = resident().unwrap();
    // What is planned now is the same plan again, in force or made anew.
    for number in [0, 5_000, 80_000, FIRST_PROBLEMS, FIRST_PROBLEMS + MORE_PROBLEMS - 1] {
        let (first, again) = (plan(number), plan(number));
        assert_eq!((first.kernel, first.point), (again.kernel, again.point));
    }
    println!("grew {} {}", full.saturating_sub(before), after.saturating_sub(full));
}

#[test]
fn results_beyond_all_tables_are_right_and_their_plans_are_kept() {
    let rt = fresh().no_blas().device("cpu").patience(Patience::Off).build().unwrap();
    for number in 0..72_000 {
        rt.plan(&nth(number)).unwrap();
    }
    let mut out = vec![0.0f32; 200 * 200];
    for number in 100_000..100_050 {
        let problem = nth(number);
        let lens = problem.input_lens();
        let [lhs, rhs] = [0, 1].map(|side| vec![3.0f32; lens.as_slice()[side] as usize]);
        let out = &mut out[..problem.out_len() as usize];
        for _ in 0..3 {
            out.fill(f32::NAN);
            rt.execute(&problem, &lhs, &rhs, out).unwrap();
            let expected = [6.0, 9.0, 3.0, 3.0][number % 4];
            assert!(out.iter().all(|value| *value == expected), "{problem}");
        }
        assert_eq!(rt.plan(&problem).unwrap().number(), 0, "it found no place in the table");
        assert!(rt.planner().beyond(&problem, Default::default()).is_some());
    }
}

const THREADS: usize = 64;
const CALLS: usize = 60;

#[test]
fn sixty_four_threads_that_call_evaluate_and_choose_at_once_each_get_their_own_results() {
    let rt = fresh().no_blas().device("cpu").budget(Nanos::from_millis(5)).build().unwrap();
    let choice = rt
        .choose::<u64, u64>("squares")
        .option("loop", |n| (0..=n).map(|x| x * x).sum())
        .option("formula", |n| n * (n + 1) * (2 * n + 1) / 6)
        .agree(|a, b| a == b)
        .build()
        .unwrap();
    let (barrier, choice) = (Barrier::new(THREADS), Arc::new(choice));
    let (sender, done) = std::sync::mpsc::channel();
    let watchdog = std::thread::spawn(move || done.recv_timeout(Duration::from_secs(300)).is_ok());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rt, barrier, choice) = (&rt, &barrier, Arc::clone(&choice));
            scope.spawn(move || {
                barrier.wait();
                for call in 0..CALLS {
                    // Each of another size than its neighbours', each with numbers of its own.
                    let (size, own) = (1 + (thread * 7 + call * 13) % 40, (thread * CALLS + call) as f64);
                    let x = Tensor::full(&[size, size], own).unwrap();
                    match (thread + call) % 4 {
                        0 => {
                            let sum = rt.add(&x, own).unwrap();
                            assert_eq!(sum.to_vec(), vec![2.0 * own; size * size]);
                        }
                        1 => {
                            let value = ((rt.lazy(&x) * 2.0 - own).abs() + &x).sum(Axis::All);
                            assert_eq!(value.item().unwrap(), 2.0 * own * (size * size) as f64);
                        }
                        2 => {
                            let unit =
                                Tensor::from_fn(&[size, size], |at| f64::from(at % (size + 1) == 0)).unwrap();
                            assert_eq!(rt.matmul(&x, &unit).unwrap(), x);
                        }
                        _ => {
                            let n = own as u64 % 500;
                            let right = n * (n + 1) * (2 * n + 1) / 6;
                            assert_eq!(choice.run(&[1 + size as u64 % 4], n).unwrap(), right);
                        }
                    }
                    if call % 20 == 7 {
                        // Whoever explains, replans or asks for statistics stands in nobody's way.
                        rt.explain(&nth(call)).unwrap();
                        rt.planner().stats();
                        if thread % 16 == 0 {
                            rt.planner().replan();
                        }
                    }
                }
            });
        }
    });
    sender.send(()).unwrap();
    assert!(watchdog.join().unwrap(), "it took longer than five minutes");
    let evaluated = rt.activity().evaluated;
    assert!(evaluated >= (THREADS * CALLS / 4) as u64, "{evaluated}");
}

const ROLE: &str = "TRIMTAB_SCALE_ROLE";
const DIR: &str = "TRIMTAB_SCALE_DIR";
/// How long the processes work; minutes where somebody asks for it.
const SECONDS: &str = "TRIMTAB_SCALE_SECONDS";
const PROCESSES: usize = 8;

/// What processes work on: some problems are everybody's, some one's own.
fn worked_on(process: usize) -> Vec<Problem> {
    let texts = (0..12).map(|size| match size % 4 {
        0 => format!("elementwise.add:f32:{}", 100 + 37 * size),
        1 => format!("reduce.sum:f64:{}x{}", 20 + size, 30 + size),
        2 => format!("matmul:f32:{0}x{0}x{0}", 8 + 4 * size),
        _ => format!("transpose:f32:{}x{}", 16 + size, 64 + size),
    });
    let own = (0..4).map(|size| format!("elementwise.mul:f32:{}x{}", 10 + process, 20 + size));
    texts.chain(own).map(|text| text.parse().unwrap()).collect()
}

/// Not a test of its own: what the children do. Without a role it does nothing.
#[test]
fn a_child_of_many_plays_its_role() {
    let (Some(role), Some(dir)) = (variable(ROLE), variable(DIR)) else { return };
    let dir = Path::new(&dir);
    match role.strip_prefix("works ") {
        Some(process) => {
            let (process, watch) = (process.parse::<usize>().unwrap(), Stopwatch::start());
            let seconds = variable(SECONDS).map_or(3.0, |seconds| seconds.parse().unwrap());
            let mut round = 0;
            // In as many runtimes as there is time for: each opens the directory, and leaves it, while others write.
            while round == 0 || watch.elapsed() < Nanos::from_secs_f64(seconds) {
                let rt = kept_in(dir).no_blas().device("cpu").budget(Nanos::from_millis(20)).build().unwrap();
                for problem in worked_on(process) {
                    if (round + process) % 3 == 0 {
                        let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(30));
                        let request = TuneRequest { rules: Rules::default(), ..request };
                        rt.planner().tune(&problem, Default::default(), &request, &mut |_| ()).unwrap();
                    }
                    assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()), "{problem}");
                }
                rt.planner().drain();
                assert_eq!(rt.wisdom().warnings(), []);
                round += 1;
            }
            println!("rounds {round}");
        }
        None if role == "meets problems" => meets_problems(),
        None => {
            let rt = kept_in(dir).no_blas().device("cpu").patience(Patience::Off).build().unwrap();
            for problem in (0..PROCESSES).flat_map(worked_on) {
                let plan = rt.plan(&problem).unwrap();
                let decision = rt.explain(&problem).unwrap();
                let winner = decision.winner().unwrap();
                let chosen = (plan.device, &winner.name, &winner.point_name);
                println!("plan {problem} {chosen:?} {:?} {}", plan.point, decision.reason.name());
            }
            println!("facts {}", rt.wisdom().all_facts().len());
        }
    }
}

fn child(role: &str, dir: &Path) -> Command {
    let mut command = trimtab_testing::child("a_child_of_many_plays_its_role").unwrap();
    command.env(ROLE, role).env(DIR, dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(variable(SECONDS).map(|seconds| (SECONDS, seconds)));
    command
}

/// What children said, line by line, those that begin so.
fn said(children: Vec<std::process::Child>, words: &[&str]) -> Vec<Vec<String>> {
    let of = |child: std::process::Child| {
        let output = child.wait_with_output().unwrap();
        let (out, err) =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).into();
        assert!(output.status.success(), "{out}\n{err}");
        out.lines()
            .filter(|line| words.iter().any(|word| line.starts_with(word)))
            .map(str::to_string)
            .collect()
    };
    children.into_iter().map(of).collect()
}

#[test]
fn eight_processes_that_tuned_on_one_directory_leave_eight_others_with_identical_plans() {
    let dir = tempfile::tempdir().unwrap();
    let start = |role: &dyn Fn(usize) -> String| -> Vec<_> {
        (0..PROCESSES).map(|process| child(&role(process), dir.path()).spawn().unwrap()).collect()
    };
    let rounds = said(start(&|process| format!("works {process}")), &["rounds"]);
    let plans = said(start(&|_| "chooses".to_string()), &["plan", "facts"]);
    let problems: BTreeMap<String, ()> =
        (0..PROCESSES).flat_map(worked_on).map(|problem| (problem.to_string(), ())).collect();
    let mut seen: Vec<&String> = plans[0].iter().filter(|line| line.starts_with("plan ")).collect();
    seen.dedup();
    assert!(seen.len() >= problems.len(), "{} of {}", seen.len(), problems.len());
    for other in &plans[1..] {
        assert_eq!(other, &plans[0]);
    }
    // What was raced by anybody is remembered for everybody.
    let remembered = seen.iter().filter(|line| line.ends_with(" remembered")).count();
    assert!(remembered * 10 >= seen.len() * 9, "{remembered} of {}: {seen:#?}", seen.len());
    eprintln!("{rounds:?}, {} problems, {}", problems.len(), plans[0].last().unwrap());
}
