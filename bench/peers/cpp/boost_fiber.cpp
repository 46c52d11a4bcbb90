/*
 * boost_fiber.cpp: Boost.Fiber. On two processors: its scheduler work_stealing on two threads that
 * sleep when there is nothing to do (spinning, its default, is slower where one waits for the
 * other), main being one of them; on one: its default, round_robin.
 *
 * It has no pool: pool_sleep is the one of its manual, so many worker fibers that take tasks out of
 * a buffered channel. Its stacks have their default size (128 KB, by malloc); where there are very
 * many fibers, 16 KB.
 */
#include <array>
#include <atomic>
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "../c/peer.h"

namespace fibers = boost::fibers;

/* The threads beside main that run fibers; they end with it. */
class Helpers
{
  public:
    explicit Helpers(const peer_round *round)
    {
        const auto count = static_cast<uint32_t>(round->processors);
        for (uint32_t i = 1; i < count; i++)
            threads.emplace_back([this, count] {
                fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(count, true);
                std::unique_lock<fibers::mutex> lock(mutex);
                ended.wait(lock, [this] { return over; });
            });
        if (count > 1)
            fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(count, true);
    }
    Helpers(const Helpers &) = delete;
    Helpers &operator=(const Helpers &) = delete;
    ~Helpers()
    {
        {
            std::unique_lock<fibers::mutex> lock(mutex);
            over = true;
        }
        ended.notify_all();
        for (std::thread &thread : threads)
            thread.join();
    }

  private:
    std::vector<std::thread> threads;
    fibers::mutex mutex;
    fibers::condition_variable ended;
    bool over = false;
};

/* One for the process: the scheduler of a thread cannot be exchanged. It is left behind at the
 * end. */
static void start(const peer_round *round)
{
    static Helpers *helpers = new Helpers(round);
    (void)helpers;
}

template <typename Function> static void in_fibers(long count, Function function)
{
    std::vector<fibers::fiber> all;
    for (long i = 0; i < count; i++)
        all.emplace_back(function);
    for (fibers::fiber &fiber : all)
        fiber.join();
}

static double per_operation(int64_t elapsed, long operations)
{
    return static_cast<double>(elapsed) / static_cast<double>(operations);
}

static double measure_yield(peer_round *round)
{
    const long count = round->size, yields = peer_amount(round, 10 * 1000 * 1000) / count;
    start(round);
    const int64_t began = peer_now();
    in_fibers(count, [yields] {
        for (long i = 0; i < yields; i++)
            boost::this_fiber::yield();
    });
    PEER_PARAMS(round, "fibers=%ld yields=%ld", count, yields);
    return per_operation(peer_now() - began, count * yields);
}

static double measure_spawn(peer_round *round)
{
    constexpr long batch = 100;
    const long spawners = round->processors;
    const long batches = peer_amount(round, 500 * 1000) / batch / spawners;
    start(round);
    const int64_t began = peer_now();
    in_fibers(spawners, [batches] {
        for (long i = 0; i < batches; i++)
            in_fibers(batch, [] {});
    });
    PEER_PARAMS(round, "spawners=%ld batch=%ld batches=%ld", spawners, batch, batches);
    return per_operation(peer_now() - began, spawners * batches * batch);
}

template <typename Channel> static double stream(peer_round *round, Channel &channel)
{
    const int64_t count = peer_amount(round, 2 * 1000 * 1000);
    int64_t sum = 0;
    start(round);
    const int64_t began = peer_now();
    fibers::fiber receiver([&] {
        int64_t value;
        while (channel.pop(value) == fibers::channel_op_status::success)
            sum += value;
    });
    fibers::fiber sender([&] {
        for (int64_t i = 1; i <= count; i++)
            channel.push(i);
        channel.close();
    });
    sender.join();
    receiver.join();
    const int64_t elapsed = peer_now() - began;
    PEER_CHECK(sum == count * (count + 1) / 2);
    PEER_PARAMS(round, "elements=%ld capacity=%ld", static_cast<long>(count), round->size);
    return per_operation(elapsed, count);
}

static double measure_unbuffered(peer_round *round)
{
    fibers::unbuffered_channel<int64_t> channel;
    return stream(round, channel);
}

static double measure_buffered(peer_round *round)
{
    fibers::buffered_channel<int64_t> channel(static_cast<std::size_t>(round->size));
    return stream(round, channel);
}

static double measure_mutex(peer_round *round)
{
    const long count = round->size, each = peer_amount(round, 2 * 1000 * 1000) / count;
    fibers::mutex mutex;
    long counter = 0;
    start(round);
    const int64_t began = peer_now();
    in_fibers(count, [&] {
        for (long i = 0; i < each; i++) {
            const std::lock_guard<fibers::mutex> lock(mutex);
            counter++;
        }
    });
    const int64_t elapsed = peer_now() - began;
    PEER_CHECK(counter == count * each);
    PEER_PARAMS(round, "fibers=%ld operations=%ld", count, counter);
    return per_operation(elapsed, counter);
}

static const std::size_t small_stack = 16 * 1024;

static void nap()
{
    boost::this_fiber::sleep_for(std::chrono::milliseconds(10));
}

static double measure_pool_sleep(peer_round *round)
{
    constexpr long capacity = 50000;
    const long tasks = peer_amount(round, round->size);
    std::atomic<long> ran{0};
    start(round);
    const int64_t began = peer_now();
    fibers::buffered_channel<void (*)()> queue(1024);
    std::vector<fibers::fiber> workers;
    for (long i = 0; i < capacity; i++)
        workers.emplace_back(std::allocator_arg, fibers::fixedsize_stack(small_stack), [&] {
            void (*task)();
            while (queue.pop(task) == fibers::channel_op_status::success) {
                task();
                ran.fetch_add(1, std::memory_order_relaxed);
            }
        });
    for (long i = 0; i < tasks; i++)
        queue.push(nap);
    queue.close();
    for (fibers::fiber &worker : workers)
        worker.join();
    const int64_t elapsed = peer_now() - began;
    PEER_CHECK(ran.load() == tasks);
    PEER_PARAMS(round, "tasks=%ld sleep=10ms capacity=%ld stack=16KB", tasks, capacity);
    return static_cast<double>(elapsed) / 1e9;
}

static double measure_parked(peer_round *round)
{
    const long count = peer_amount(round, round->size);
    static std::atomic<long> arrived{0};
    static auto &mutex = *new fibers::mutex; /* the fibers outlive this round */
    static auto &gate = *new fibers::condition_variable;
    start(round);
    const double before = peer_resident();
    for (long i = 0; i < count; i++)
        fibers::fiber(std::allocator_arg, fibers::fixedsize_stack(small_stack), [] {
            std::unique_lock<fibers::mutex> lock(mutex);
            arrived++;
            gate.wait(lock);
        }).detach();
    while (arrived.load() < count)
        boost::this_fiber::yield();
    const double bytes = (peer_resident() - before) / static_cast<double>(count);
    PEER_PARAMS(round, "fibers=%ld stack=16KB", count);
    return bytes;
}

static int64_t skynet(int64_t number, int64_t leaves)
{
    if (leaves == 1)
        return number;
    std::array<fibers::future<int64_t>, 10> children;
    for (int64_t i = 0; i < 10; i++)
        children[static_cast<std::size_t>(i)] = fibers::async(
            fibers::launch::dispatch, std::allocator_arg, fibers::fixedsize_stack(small_stack),
            skynet, number + i * (leaves / 10), leaves / 10);
    int64_t sum = 0;
    for (fibers::future<int64_t> &child : children)
        sum += child.get();
    return sum;
}

static double measure_skynet(peer_round *round)
{
    const int64_t leaves = peer_amount(round, round->size);
    start(round);
    const int64_t began = peer_now();
    const int64_t sum = fibers::async(skynet, INT64_C(0), leaves).get();
    const int64_t elapsed = peer_now() - began;
    PEER_CHECK(sum == leaves * (leaves - 1) / 2);
    PEER_PARAMS(round, "leaves=%ld branches=10 sum=future stack=16KB", static_cast<long>(leaves));
    return static_cast<double>(elapsed) / 1e9;
}

static int64_t fibonacci(int n)
{
    if (n < 2)
        return n;
    int64_t one = 0;
    fibers::fiber fiber(fibers::launch::dispatch, [&one, n] { one = fibonacci(n - 1); });
    const int64_t two = fibonacci(n - 2);
    fiber.join();
    return one + two;
}

static double measure_fibonacci(peer_round *round)
{
    const int n = round->quick ? 22 : static_cast<int>(round->size);
    int64_t value = 0;
    start(round);
    const int64_t began = peer_now();
    fibers::fiber([&] { value = fibonacci(n); }).join();
    const int64_t elapsed = peer_now() - began;
    PEER_CHECK(value == peer_fibonacci(n));
    PEER_PARAMS(round, "fib=%d cutoff=none", n);
    return static_cast<double>(elapsed) / 1e9;
}

int main(int argc, char **argv)
{
    static const peer_case cases[] = {
        {"yield", "ns/op", measure_yield, 1000, false, false},
        {"yield_one", "ns/op", measure_yield, 1000, false, true},
        {"spawn", "ns/op", measure_spawn, 0, false, false},
        {"chan_unbuffered", "ns/op", measure_unbuffered, 0, false, false},
        {"chan_buffered", "ns/op", measure_buffered, 128, false, false},
        {"mutex", "ns/op", measure_mutex, 8, false, false},
        {"pool_sleep", "s", measure_pool_sleep, 1000000, true, false},
        {"pool_sleep_100k", "s", measure_pool_sleep, 100000, true, false},
        {"pool_sleep_10m", "s", measure_pool_sleep, 10000000, true, false},
        {"parked", "bytes", measure_parked, 1000000, true, false},
        {"skynet", "s", measure_skynet, 1000000, true, false},
        {"fork_join", "s", measure_fibonacci, 27, false, false},
        {nullptr, nullptr, nullptr, 0, false, false},
    };
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", BOOST_VERSION / 100000,
             BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100);
    return peer_main(argc, argv, "boost-fiber", version, cases, 0);
}
