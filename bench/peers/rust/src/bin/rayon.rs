//! rayon: a pool with as many threads as processors. It computes: a task that waits holds its
//! thread, so only the cases without waiting are here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use rayon::prelude::*;
use rayon::{join, ThreadPool, ThreadPoolBuilder};
use weft_bench_rust::*;

fn pool(round: &Round) -> &'static ThreadPool {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| ThreadPoolBuilder::new().num_threads(round.processors).build().expect("a pool"))
}

/// Each submitter is a thread outside the pool; its scope ends when all its tasks have run.
fn measure_noop(round: &Round) -> (f64, String) {
    let (pool, submitters) = (pool(round), round.size);
    let each = round.amount(1_000_000) / submitters;
    let submit = || {
        pool.in_place_scope(|scope| {
            for _ in 0..each {
                scope.spawn(|_| {});
            }
        });
    };
    let elapsed = timed(|| {
        if submitters == 1 {
            submit();
            return;
        }
        std::thread::scope(|threads| {
            for _ in 0..submitters {
                threads.spawn(submit);
            }
        });
    });
    let tasks = submitters * each;
    (per_operation(elapsed, tasks), format!("from=thread submitters={submitters} tasks={tasks} capacity=none"))
}

fn skynet(number: i64, leaves: i64) -> i64 {
    if leaves == 1 {
        return number;
    }
    let part = leaves / 10;
    (0..10i32).into_par_iter().with_max_len(1).map(|i| skynet(number + i64::from(i) * part, part)).sum()
}

fn measure_skynet(round: &Round) -> (f64, String) {
    let (pool, leaves) = (pool(round), round.amount(round.size) as i64);
    let mut sum = 0;
    let elapsed = timed(|| sum = pool.install(|| skynet(0, leaves)));
    expect(sum, leaves * (leaves - 1) / 2);
    (elapsed.as_secs_f64(), format!("leaves={leaves} branches=10 sum=par_iter"))
}

fn fibonacci(n: u32) -> i64 {
    if n < 2 {
        return n as i64;
    }
    let (one, two) = join(|| fibonacci(n - 1), || fibonacci(n - 2));
    one + two
}

fn measure_fibonacci(round: &Round) -> (f64, String) {
    let (pool, n) = (pool(round), fibonacci_number(round));
    let mut value = 0;
    let elapsed = timed(|| value = pool.install(|| fibonacci(n)));
    expect(value, iterated(n));
    (elapsed.as_secs_f64(), format!("fib={n} cutoff=none"))
}

/// Two scopes inside the pool, each spawns a batch and waits for it.
fn measure_spawn(round: &Round) -> (f64, String) {
    const BATCH: usize = 100;
    let (pool, spawners) = (pool(round), round.processors);
    let batches = round.amount(500_000) / BATCH / spawners;
    let ran = AtomicUsize::new(0);
    let elapsed = timed(|| {
        pool.scope(|spawning| {
            for _ in 0..spawners {
                spawning.spawn(|_| {
                    for _ in 0..batches {
                        rayon::scope(|scope| {
                            for _ in 0..BATCH {
                                scope.spawn(|_| {
                                    ran.fetch_add(1, Ordering::Relaxed);
                                });
                            }
                        });
                    }
                });
            }
        });
    });
    let tasks = spawners * batches * BATCH;
    expect(ran.load(Ordering::Relaxed) as i64, tasks as i64);
    (per_operation(elapsed, tasks), format!("spawners={spawners} batch={BATCH} batches={batches}"))
}

fn main() {
    run(
        "rayon",
        &[
            case("spawn", "ns/op", 0, measure_spawn),
            case("pool_noop", "ns/op", 1, measure_noop),
            case("pool_noop_many", "ns/op", 8, measure_noop),
            case("skynet", "s", 1_000_000, measure_skynet).cold(),
            case("fork_join", "s", 27, measure_fibonacci),
        ],
    );
}
