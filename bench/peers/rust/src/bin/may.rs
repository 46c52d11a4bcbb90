//! may: stackful coroutines on as many workers as processors. Whatever is measured runs in
//! coroutines; main only waits.
//!
//! Its channels have no bound, so a sender never waits: chan_buffered is that, chan_unbuffered does
//! not exist. A bounded pool is its semaphore. It has no answer to code that blocks its thread: in
//! tick_lateness the neighbours block the workers, two at a time. Its stacks have guard pages, two
//! mappings each, and the kernel allows a process some 65,530: at about 32,000 coroutines the next
//! one cannot have a stack. So the floods, parked, skynet and fork_join are left out: they fail, or
//! not, by how far the coroutines pile up.

use std::io::{Read, Write};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use may::coroutine::{sleep, yield_now, JoinHandle};
use may::go;
use may::net::{TcpListener, TcpStream};
use may::sync::{mpsc, Mutex, Semphore};
use weft_bench_rust::*;

/// Runs the function as a coroutine and waits for what it returns.
fn inside<T: Send + 'static>(round: &Round, function: impl FnOnce() -> T + Send + 'static) -> T {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        may::config().set_workers(round.processors);
    });
    go!(function).join().expect("the coroutine")
}

fn join_all<T>(coroutines: Vec<JoinHandle<T>>) -> Vec<T> {
    coroutines.into_iter().map(|coroutine| coroutine.join().expect("a coroutine")).collect()
}

fn measure_yield(round: &Round) -> (f64, String) {
    let fibers = round.size;
    let yields = round.amount(10_000_000) / fibers;
    let elapsed = inside(round, move || {
        timed(|| {
            join_all((0..fibers).map(|_| go!(move || (0..yields).for_each(|_| yield_now()))).collect());
        })
    });
    (per_operation(elapsed, fibers * yields), format!("fibers={fibers} yields={yields}"))
}

const BATCH: usize = 100;

fn measure_spawn(round: &Round) -> (f64, String) {
    let spawners = round.processors;
    let batches = round.amount(500_000) / BATCH / spawners;
    let spawn_batches = move || {
        for _ in 0..batches {
            join_all((0..BATCH).map(|_| go!(|| ())).collect());
        }
    };
    let elapsed = inside(round, move || {
        timed(|| {
            join_all((0..spawners).map(|_| go!(spawn_batches)).collect());
        })
    });
    (per_operation(elapsed, batches * BATCH * spawners), format!("spawners={spawners} batch={BATCH} batches={batches}"))
}

fn measure_stream(round: &Round) -> (f64, String) {
    let count = round.amount(2_000_000) as i64;
    let (elapsed, sum) = inside(round, move || {
        let (sender, receiver) = mpsc::channel::<i64>();
        let start = Instant::now();
        let receiving = go!(move || receiver.iter().sum::<i64>());
        go!(move || (1..=count).for_each(|value| sender.send(value).expect("a receiver")));
        let sum = receiving.join().expect("the receiver");
        (start.elapsed(), sum)
    });
    expect(sum, count * (count + 1) / 2);
    (per_operation(elapsed, count as usize), format!("elements={count} capacity=unbounded"))
}

fn measure_mutex(round: &Round) -> (f64, String) {
    let fibers = round.size;
    let each = round.amount(2_000_000) / fibers;
    let counter = Arc::new(Mutex::new(0i64));
    let shared = counter.clone();
    let elapsed = inside(round, move || {
        let add = |counter: Arc<Mutex<i64>>| move || (0..each).for_each(|_| *counter.lock().expect("the lock") += 1);
        timed(|| {
            join_all((0..fibers).map(|_| go!(add(shared.clone()))).collect());
        })
    });
    expect(*counter.lock().expect("the lock"), (fibers * each) as i64);
    (per_operation(elapsed, fibers * each), format!("fibers={fibers} operations={}", fibers * each))
}

fn submit(pool: &Arc<Semphore>, task: impl FnOnce() + Send + 'static) {
    pool.wait();
    let pool = pool.clone();
    go!(move || {
        task();
        pool.post();
    });
}

fn measure_noop(round: &Round) -> (f64, String) {
    const CAPACITY: usize = 10_000;
    let submitters = round.size;
    let each = round.amount(1_000_000) / submitters;
    let elapsed = inside(round, move || {
        let pool = Arc::new(Semphore::new(CAPACITY));
        let start = Instant::now();
        let submitting = (0..submitters)
            .map(|_| {
                let pool = pool.clone();
                go!(move || (0..each).for_each(|_| submit(&pool, || ())))
            })
            .collect();
        join_all(submitting);
        (0..CAPACITY).for_each(|_| pool.wait());
        start.elapsed()
    });
    let tasks = submitters * each;
    (per_operation(elapsed, tasks), format!("from=coroutine submitters={submitters} tasks={tasks} capacity={CAPACITY}"))
}

/// A tick every 10 ms by schedule; those that were due between `begin` and `end` count.
fn tick(begin: &OnceLock<Instant>, end: &OnceLock<Instant>) -> Vec<f64> {
    let (period, mut late) = (Duration::from_millis(10), Vec::new());
    let mut due = Instant::now();
    loop {
        due += period;
        sleep(due.saturating_duration_since(Instant::now()));
        if end.get().is_some_and(|end| due > *end) {
            return late;
        }
        if begin.get().is_some_and(|begin| due >= *begin) {
            late.push(due.elapsed().as_secs_f64());
        }
    }
}

fn measure_lateness(round: &Round) -> (f64, String) {
    const TICKERS: usize = 1000;
    let blocking = if round.quick { 16 } else { 64 };
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    static END: OnceLock<Instant> = OnceLock::new();
    let late = inside(round, move || {
        let tickers = (0..TICKERS).map(|_| go!(|| tick(&BEGIN, &END))).collect();
        sleep(Duration::from_millis(50));
        BEGIN.set(Instant::now()).expect("a first time");
        let block = || std::thread::sleep(Duration::from_millis(200));
        join_all((0..blocking).map(|_| go!(block)).collect());
        END.set(Instant::now()).expect("a first time");
        join_all(tickers).concat()
    });
    lateness(late, TICKERS, blocking, "by=worker")
}

const MESSAGE: usize = 64;

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut data = [0u8; MESSAGE];
    stream.set_nodelay(true)?;
    loop {
        let got = stream.read(&mut data)?;
        if got == 0 {
            return Ok(());
        }
        stream.write_all(&data[..got])?;
    }
}

fn ask(address: std::net::SocketAddr, messages: usize) -> std::io::Result<()> {
    let mut data = [0u8; MESSAGE];
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    for _ in 0..messages {
        stream.write_all(&data)?;
        stream.read_exact(&mut data)?;
    }
    Ok(())
}

fn measure_echo(round: &Round) -> (f64, String) {
    let connections = round.size;
    let messages = round.amount(100_000) / connections;
    let elapsed = inside(round, move || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let start = Instant::now();
        go!(move || {
            for _ in 0..connections {
                let (stream, _) = listener.accept().expect("a connection");
                go!(move || answer(stream));
            }
        });
        for client in join_all((0..connections).map(|_| go!(move || ask(address, messages))).collect()) {
            client.expect("round trips");
        }
        start.elapsed()
    });
    let params = format!("connections={connections} messages={messages} bytes={MESSAGE}");
    (per_operation(elapsed, connections * messages), params)
}

fn main() {
    run(
        "may",
        &[
            case("yield", "ns/op", 1000, measure_yield),
            case("yield_one", "ns/op", 1000, measure_yield).one(),
            case("spawn", "ns/op", 0, measure_spawn),
            case("chan_buffered", "ns/op", 0, measure_stream),
            case("mutex", "ns/op", 8, measure_mutex),
            case("pool_noop", "ns/op", 1, measure_noop),
            case("pool_noop_many", "ns/op", 8, measure_noop),
            case("tick_lateness", "s", 0, measure_lateness).cold(),
            case("echo", "ns/op", 100, measure_echo),
        ],
    );
}
