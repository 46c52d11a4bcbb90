//! tokio: the multi-threaded runtime, with as many workers as processors. Whatever is measured runs
//! in tasks: main only waits.
//!
//! There is no unbuffered channel: chan_unbuffered has one place. A bounded pool is a semaphore
//! whose permit goes with the task. Timers are sleeping tasks, with the clock of tokio, which ticks
//! in milliseconds. What blocks is handed to spawn_blocking, as the manual says.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, Mutex, Notify, Semaphore};
use tokio::task::{spawn, spawn_blocking, yield_now};
use tokio::time::{sleep, sleep_until};
use weft_bench_rust::*;

fn runtime(round: &Round) -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(round.processors).enable_all().build().expect("a runtime")
    })
}

/// Runs the future as a task and waits for what it returns.
fn inside<T: Send + 'static>(round: &Round, future: impl Future<Output = T> + Send + 'static) -> T {
    runtime(round).block_on(async { spawn(future).await.expect("the task") })
}

fn measure_yield(round: &Round) -> (f64, String) {
    let fibers = round.size;
    let yields = round.amount(10_000_000) / fibers;
    let elapsed = inside(round, async move {
        let start = Instant::now();
        let tasks: Vec<_> = (0..fibers)
            .map(|_| {
                spawn(async move {
                    for _ in 0..yields {
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        start.elapsed()
    });
    (per_operation(elapsed, fibers * yields), format!("fibers={fibers} yields={yields}"))
}

const BATCH: usize = 100;

async fn spawn_batches(batches: usize) {
    let mut tasks = Vec::with_capacity(BATCH);
    for _ in 0..batches {
        tasks.extend((0..BATCH).map(|_| spawn(async {})));
        for task in tasks.drain(..) {
            task.await.expect("a task");
        }
    }
}

fn measure_spawn(round: &Round) -> (f64, String) {
    let spawners = round.processors;
    let batches = round.amount(500_000) / BATCH / spawners;
    let elapsed = inside(round, async move {
        let start = Instant::now();
        let tasks: Vec<_> = (0..spawners).map(|_| spawn(spawn_batches(batches))).collect();
        for task in tasks {
            task.await.expect("a spawner");
        }
        start.elapsed()
    });
    (per_operation(elapsed, batches * BATCH * spawners), format!("spawners={spawners} batch={BATCH} batches={batches}"))
}

fn measure_stream(round: &Round) -> (f64, String) {
    let (count, capacity) = (round.amount(2_000_000) as i64, round.size);
    let (elapsed, sum) = inside(round, async move {
        let (sender, mut receiver) = mpsc::channel::<i64>(capacity);
        let start = Instant::now();
        let receiving = spawn(async move {
            let mut sum = 0;
            while let Some(value) = receiver.recv().await {
                sum += value;
            }
            sum
        });
        spawn(async move {
            for value in 1..=count {
                sender.send(value).await.expect("a receiver");
            }
        });
        let sum = receiving.await.expect("the receiver");
        (start.elapsed(), sum)
    });
    expect(sum, count * (count + 1) / 2);
    (per_operation(elapsed, count as usize), format!("elements={count} capacity={capacity}"))
}

const CHANNELS: usize = 8;

async fn receive_any(mut r: [mpsc::Receiver<i64>; CHANNELS], count: i64) -> i64 {
    let [r0, r1, r2, r3, r4, r5, r6, r7] = &mut r;
    let mut sum = 0;
    for _ in 0..count {
        sum += tokio::select! {
            Some(value) = r0.recv() => value,
            Some(value) = r1.recv() => value,
            Some(value) = r2.recv() => value,
            Some(value) = r3.recv() => value,
            Some(value) = r4.recv() => value,
            Some(value) = r5.recv() => value,
            Some(value) = r6.recv() => value,
            Some(value) = r7.recv() => value,
        };
    }
    sum
}

fn measure_select(round: &Round) -> (f64, String) {
    let (each, capacity) = ((round.amount(1_000_000) / CHANNELS) as i64, round.size);
    let count = CHANNELS as i64 * each;
    let (elapsed, sum) = inside(round, async move {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..CHANNELS).map(|_| mpsc::channel::<i64>(capacity)).unzip();
        let receivers = receivers.try_into().expect("eight receivers");
        let start = Instant::now();
        let receiving = spawn(receive_any(receivers, count));
        for sender in senders {
            spawn(async move {
                for value in 1..=each {
                    sender.send(value).await.expect("a receiver");
                }
            });
        }
        let sum = receiving.await.expect("the receiver");
        (start.elapsed(), sum)
    });
    expect(sum, CHANNELS as i64 * each * (each + 1) / 2);
    (per_operation(elapsed, count as usize), format!("channels={CHANNELS} capacity={capacity} elements={count}"))
}

fn measure_mutex(round: &Round) -> (f64, String) {
    let fibers = round.size;
    let each = round.amount(2_000_000) / fibers;
    let counter = Arc::new(Mutex::new(0i64));
    let shared = counter.clone();
    let elapsed = inside(round, async move {
        let start = Instant::now();
        let tasks: Vec<_> = (0..fibers)
            .map(|_| {
                let counter = shared.clone();
                spawn(async move {
                    for _ in 0..each {
                        *counter.lock().await += 1;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        start.elapsed()
    });
    expect(*counter.blocking_lock(), (fibers * each) as i64);
    (per_operation(elapsed, fibers * each), format!("fibers={fibers} operations={}", fibers * each))
}

/// A task in a pool that is a semaphore.
async fn submit(pool: &Arc<Semaphore>, task: impl Future<Output = ()> + Send + 'static) {
    let permit = pool.clone().acquire_owned().await.expect("a permit");
    spawn(async move {
        task.await;
        drop(permit);
    });
}

async fn drain(pool: &Semaphore, capacity: usize) {
    pool.acquire_many(capacity as u32).await.expect("all permits").forget();
}

fn measure_noop(round: &Round) -> (f64, String) {
    const CAPACITY: usize = 10_000;
    let submitters = round.size;
    let each = round.amount(1_000_000) / submitters;
    let elapsed = inside(round, async move {
        let pool = Arc::new(Semaphore::new(CAPACITY));
        let start = Instant::now();
        let tasks: Vec<_> = (0..submitters)
            .map(|_| {
                let pool = pool.clone();
                spawn(async move {
                    for _ in 0..each {
                        submit(&pool, async {}).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a submitter");
        }
        drain(&pool, CAPACITY).await;
        start.elapsed()
    });
    let tasks = submitters * each;
    (per_operation(elapsed, tasks), format!("from=task submitters={submitters} tasks={tasks} capacity={CAPACITY}"))
}

const FLOOD_CAPACITY: usize = 50_000;
const NAP: Duration = Duration::from_millis(10);

async fn flood_pool(tasks: usize, waits: bool) -> f64 {
    let pool = Arc::new(Semaphore::new(FLOOD_CAPACITY));
    let start = Instant::now();
    for _ in 0..tasks {
        submit(&pool, sleep(NAP)).await;
    }
    if waits {
        drain(&pool, FLOOD_CAPACITY).await;
    }
    start.elapsed().as_secs_f64()
}

fn measure_pool_sleep(round: &Round) -> (f64, String) {
    let tasks = round.amount(round.size);
    let elapsed = inside(round, flood_pool(tasks, true));
    (elapsed, format!("tasks={tasks} sleep=10ms capacity={FLOOD_CAPACITY}"))
}

fn measure_throughput(round: &Round) -> (f64, String) {
    let tasks = round.amount(round.size);
    let elapsed = inside(round, flood_pool(tasks, false));
    (elapsed, format!("tasks={tasks} sleep=10ms capacity={FLOOD_CAPACITY} submit=only"))
}

/// All have ended when the last sender is gone.
fn measure_no_pool_sleep(round: &Round) -> (f64, String) {
    let tasks = round.amount(round.size);
    let elapsed = inside(round, async move {
        let (alive, mut all) = mpsc::channel::<()>(1);
        let start = Instant::now();
        for _ in 0..tasks {
            let alive = alive.clone();
            spawn(async move {
                sleep(NAP).await;
                drop(alive);
            });
        }
        drop(alive);
        all.recv().await;
        start.elapsed().as_secs_f64()
    });
    (elapsed, format!("tasks={tasks} sleep=10ms"))
}

fn measure_parked(round: &Round) -> (f64, String) {
    let fibers = round.amount(round.size);
    let bytes = inside(round, async move {
        let (gate, all_here) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let missing = Arc::new(AtomicUsize::new(fibers));
        let before = resident();
        for _ in 0..fibers {
            let (gate, all_here, missing) = (gate.clone(), all_here.clone(), missing.clone());
            spawn(async move {
                let waiting = gate.notified();
                tokio::pin!(waiting);
                waiting.as_mut().enable();
                if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    all_here.notify_one();
                }
                waiting.await;
            });
        }
        all_here.notified().await;
        let bytes = (resident() - before) / fibers as f64;
        gate.notify_waiters();
        bytes
    });
    (bytes, format!("fibers={fibers}"))
}

fn measure_timers(round: &Round) -> (f64, String) {
    let count = round.amount(round.size);
    let ahead = Duration::from_millis(if round.quick { 200 } else { 1000 });
    let used = inside(round, async move {
        let (alive, mut all) = mpsc::channel::<()>(1);
        let (before, start, mut state) = (processor_time(), tokio::time::Instant::now(), 88172645463325252);
        for _ in 0..count {
            let alive = alive.clone();
            let more = Duration::from_nanos(random_next(&mut state) % ahead.as_nanos() as u64);
            spawn(async move {
                sleep_until(start + ahead + more).await;
                drop(alive);
            });
        }
        drop(alive);
        all.recv().await;
        processor_time() - before
    });
    let milliseconds = ahead.as_millis();
    let params = format!("timers={count} due={milliseconds}..{}ms time=cpu timer=task", 2 * milliseconds);
    (per_operation(used, count), params)
}

const BRANCHES: i64 = 10;

fn skynet(number: i64, leaves: i64) -> Pin<Box<dyn Future<Output = i64> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return number;
        }
        let part = leaves / BRANCHES;
        let children: Vec<_> = (0..BRANCHES).map(|i| spawn(skynet(number + i * part, part))).collect();
        let mut sum = 0;
        for child in children {
            sum += child.await.expect("a child");
        }
        sum
    })
}

fn measure_skynet(round: &Round) -> (f64, String) {
    let leaves = round.amount(round.size) as i64;
    let (elapsed, sum) = inside(round, async move {
        let start = Instant::now();
        let sum = spawn(skynet(0, leaves)).await.expect("the root");
        (start.elapsed().as_secs_f64(), sum)
    });
    expect(sum, leaves * (leaves - 1) / 2);
    (elapsed, format!("leaves={leaves} branches={BRANCHES} sum=join"))
}

fn fibonacci(n: u32) -> Pin<Box<dyn Future<Output = i64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n as i64;
        }
        let one = spawn(fibonacci(n - 1));
        let two = fibonacci(n - 2).await;
        one.await.expect("a task") + two
    })
}

fn measure_fibonacci(round: &Round) -> (f64, String) {
    let n = fibonacci_number(round);
    let (elapsed, value) = inside(round, async move {
        let start = Instant::now();
        let value = fibonacci(n).await;
        (start.elapsed().as_secs_f64(), value)
    });
    expect(value, iterated(n));
    (elapsed, format!("fib={n} cutoff=none"))
}

/// A tick every 10 ms by schedule; those that were due between `begin` and `end` count.
async fn tick(begin: &OnceLock<Instant>, end: &OnceLock<Instant>) -> Vec<f64> {
    let (period, mut late) = (Duration::from_millis(10), Vec::new());
    let mut due = Instant::now();
    loop {
        due += period;
        sleep_until(due.into()).await;
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
    let late = inside(round, async move {
        let tickers: Vec<_> = (0..TICKERS).map(|_| spawn(tick(&BEGIN, &END))).collect();
        sleep(Duration::from_millis(50)).await;
        BEGIN.set(Instant::now()).expect("a first time");
        let block = || std::thread::sleep(Duration::from_millis(200));
        let blockers: Vec<_> = (0..blocking).map(|_| spawn_blocking(block)).collect();
        for blocker in blockers {
            blocker.await.expect("a blocker");
        }
        END.set(Instant::now()).expect("a first time");
        let mut late = Vec::new();
        for ticker in tickers {
            late.append(&mut ticker.await.expect("a ticker"));
        }
        late
    });
    lateness(late, TICKERS, blocking, "by=spawn_blocking")
}

const MESSAGE: usize = 64;

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut data = [0u8; MESSAGE];
    stream.set_nodelay(true)?;
    loop {
        let got = stream.read(&mut data).await?;
        if got == 0 {
            return Ok(());
        }
        stream.write_all(&data[..got]).await?;
    }
}

async fn ask(address: std::net::SocketAddr, messages: usize) -> std::io::Result<()> {
    let mut data = [0u8; MESSAGE];
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    for _ in 0..messages {
        stream.write_all(&data).await?;
        stream.read_exact(&mut data).await?;
    }
    Ok(())
}

fn measure_echo(round: &Round) -> (f64, String) {
    let connections = round.size;
    let messages = round.amount(100_000) / connections;
    let elapsed = inside(round, async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let start = Instant::now();
        spawn(async move {
            for _ in 0..connections {
                let (stream, _) = listener.accept().await.expect("a connection");
                spawn(answer(stream));
            }
        });
        let clients: Vec<_> = (0..connections).map(|_| spawn(ask(address, messages))).collect();
        for client in clients {
            client.await.expect("a client").expect("round trips");
        }
        start.elapsed()
    });
    let params = format!("connections={connections} messages={messages} bytes={MESSAGE}");
    (per_operation(elapsed, connections * messages), params)
}

fn main() {
    run(
        "tokio",
        &[
            case("yield", "ns/op", 1000, measure_yield),
            case("yield_one", "ns/op", 1000, measure_yield).one(),
            case("spawn", "ns/op", 0, measure_spawn),
            case("chan_unbuffered", "ns/op", 1, measure_stream),
            case("chan_buffered", "ns/op", 128, measure_stream),
            case("select", "ns/op", 128, measure_select),
            case("mutex", "ns/op", 8, measure_mutex),
            case("pool_noop", "ns/op", 1, measure_noop),
            case("pool_noop_many", "ns/op", 8, measure_noop),
            case("pool_sleep", "s", 1_000_000, measure_pool_sleep).cold(),
            case("pool_sleep_100k", "s", 100_000, measure_pool_sleep).cold(),
            case("pool_sleep_10m", "s", 10_000_000, measure_pool_sleep).cold(),
            case("no_pool_sleep", "s", 1_000_000, measure_no_pool_sleep).cold(),
            case("no_pool_sleep_100k", "s", 100_000, measure_no_pool_sleep).cold(),
            case("throughput_100k", "s", 100_000, measure_throughput).cold(),
            case("throughput_1m", "s", 1_000_000, measure_throughput).cold(),
            case("throughput_10m", "s", 10_000_000, measure_throughput).cold(),
            case("parked", "bytes", 1_000_000, measure_parked).cold(),
            case("timers", "ns/op", 1_000_000, measure_timers).cold(),
            case("skynet", "s", 1_000_000, measure_skynet).cold(),
            case("fork_join", "s", 27, measure_fibonacci),
            case("tick_lateness", "s", 0, measure_lateness).cold(),
            case("echo", "ns/op", 100, measure_echo),
        ],
    );
}
