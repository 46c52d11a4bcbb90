//! What the three programs share: the options that all of bench/peers understand
//! (bench/compare/README.md), a round of a case, and the amounts.

use std::process::exit;
use std::time::{Duration, Instant};

/// One round: how much to do, on how many processors.
pub struct Round {
    pub quick: bool,
    pub processors: usize,
    pub size: usize,
}

impl Round {
    /// The full amount, or with --quick a tenth.
    pub fn amount(&self, full: usize) -> usize {
        if self.quick {
            full / 10
        } else {
            full
        }
    }
}

pub struct Case {
    pub name: &'static str,
    pub one: bool,
    pub cold: bool,
    pub unit: &'static str,
    pub size: usize,
    /// The figure and the parameters.
    pub measure: fn(&Round) -> (f64, String),
}

pub const fn case(name: &'static str, unit: &'static str, size: usize, measure: fn(&Round) -> (f64, String)) -> Case {
    Case { name, one: false, cold: false, unit, size, measure }
}

impl Case {
    pub const fn one(mut self) -> Case {
        self.one = true;
        self
    }

    pub const fn cold(mut self) -> Case {
        self.cold = true;
        self
    }
}

/// The version of a crate in Cargo.lock.
fn version(name: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    lock.split(entry.as_str()).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

pub fn per_operation(elapsed: Duration, operations: usize) -> f64 {
    elapsed.as_nanos() as f64 / operations as f64
}

pub fn expect(got: i64, want: i64) {
    if got != want {
        eprintln!("{got} came instead of {want}");
        exit(1);
    }
}

/// The resident memory of this process, in bytes.
pub fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

/// The CPU time of this process, user and system.
pub fn processor_time() -> Duration {
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

pub fn fibonacci_number(round: &Round) -> u32 {
    if round.quick {
        22
    } else {
        round.size as u32
    }
}

pub fn iterated(n: u32) -> i64 {
    let (mut a, mut b) = (0, 1);
    for _ in 0..n {
        (a, b) = (b, a + b);
    }
    a
}

/// The lateness of ticks: the 99th percentile in seconds, and the parameters.
pub fn lateness(mut late: Vec<f64>, tickers: usize, blockers: usize, way: &str) -> (f64, String) {
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[(share * (late.len() - 1) as f64) as usize];
    let params = format!(
        "tickers={tickers} period=10ms blockers={blockers} each=200ms quantile=0.99 median={:.3e}s {way}",
        at(0.5)
    );
    (at(0.99), params)
}

/// A small generator, for deadlines.
pub fn random_next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 16
}

pub fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// What main does.
pub fn run(system: &str, cases: &[Case]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().position(|word| word == name).and_then(|place| arguments.get(place + 1));
    if arguments.iter().any(|word| word == "--list") {
        for one in cases {
            println!("{} {system} {}", one.name, version(system));
        }
        return;
    }
    let name = value("--case").map(String::as_str).unwrap_or_default();
    let Some(one) = cases.iter().find(|one| one.name == name) else {
        eprintln!("there is no case {name} (see --list)");
        exit(2);
    };
    let processors = value("--procs").and_then(|word| word.parse().ok()).unwrap_or(2);
    let round = Round {
        quick: arguments.iter().any(|word| word == "--quick"),
        processors: if one.one { 1 } else { processors },
        size: one.size,
    };
    if !one.cold {
        (one.measure)(&round);
    }
    let (figure, params) = (one.measure)(&round);
    println!("{} {figure} {} processors={} {params}", one.name, one.unit, round.processors);
    exit(0); // tasks that are left are not waited for
}
