/*
 * onetbb.cpp: oneTBB: an arena of as many slots as processors. It computes: a task that waits holds
 * its thread, so only the cases without waiting are here.
 *
 * With one submitter, main is inside the arena, spawns by task_group::run and takes part: two
 * threads in all. With eight, they are outside and enqueue.
 */
#include <array>
#include <atomic>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <thread>
#include <vector>

#include "../c/peer.h"

namespace tbb = oneapi::tbb;

static tbb::task_arena &arena(const peer_round *round)
{
    static tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                     static_cast<std::size_t>(round->processors));
    static tbb::task_arena one(round->processors);
    return one;
}

static double measure_noop(peer_round *round)
{
    const long submitters = round->size;
    const long each = peer_amount(round, 1000 * 1000) / submitters;
    tbb::task_arena &where = arena(round);
    tbb::task_group group;
    const int64_t start = peer_now();
    if (submitters == 1) {
        where.execute([&] {
            for (long i = 0; i < each; i++)
                group.run([] {});
            group.wait();
        });
    } else {
        std::vector<std::thread> threads;
        for (long k = 0; k < submitters; k++)
            threads.emplace_back([&] {
                for (long i = 0; i < each; i++)
                    where.enqueue(group.defer([] {}));
            });
        for (std::thread &thread : threads)
            thread.join();
        where.execute([&] { group.wait(); });
    }
    const int64_t elapsed = peer_now() - start;
    PEER_PARAMS(round, "from=thread submitters=%ld tasks=%ld capacity=none", submitters,
                submitters * each);
    return static_cast<double>(elapsed) / static_cast<double>(submitters * each);
}

static double measure_spawn(peer_round *round)
{
    constexpr long batch = 100;
    const long spawners = round->processors;
    const long batches = peer_amount(round, 500 * 1000) / batch / spawners;
    std::atomic<long> ran{0};
    const int64_t start = peer_now();
    arena(round).execute([&] {
        tbb::parallel_for(0L, spawners, [&](long) {
            for (long i = 0; i < batches; i++) {
                tbb::task_group group;
                for (long k = 0; k < batch; k++)
                    group.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
                group.wait();
            }
        });
    });
    const int64_t elapsed = peer_now() - start;
    PEER_CHECK(ran.load() == spawners * batches * batch);
    PEER_PARAMS(round, "spawners=%ld batch=%ld batches=%ld", spawners, batch, batches);
    return static_cast<double>(elapsed) / static_cast<double>(spawners * batches * batch);
}

static int64_t skynet(int64_t number, int64_t leaves)
{
    if (leaves == 1)
        return number;
    std::array<int64_t, 10> sums{};
    tbb::task_group group;
    for (int64_t i = 0; i < 10; i++)
        group.run([&sums, i, number, leaves] {
            sums[static_cast<std::size_t>(i)] = skynet(number + i * (leaves / 10), leaves / 10);
        });
    group.wait();
    int64_t sum = 0;
    for (const int64_t part : sums)
        sum += part;
    return sum;
}

static double measure_skynet(peer_round *round)
{
    const int64_t leaves = peer_amount(round, round->size);
    int64_t sum = 0;
    tbb::task_arena &where = arena(round);
    const int64_t start = peer_now();
    where.execute([&] { sum = skynet(0, leaves); });
    const int64_t elapsed = peer_now() - start;
    PEER_CHECK(sum == leaves * (leaves - 1) / 2);
    PEER_PARAMS(round, "leaves=%ld branches=10 sum=task_group", static_cast<long>(leaves));
    return static_cast<double>(elapsed) / 1e9;
}

static int64_t fibonacci(int n)
{
    if (n < 2)
        return n;
    int64_t one = 0;
    tbb::task_group group;
    group.run([&one, n] { one = fibonacci(n - 1); });
    const int64_t two = fibonacci(n - 2);
    group.wait();
    return one + two;
}

static double measure_fibonacci(peer_round *round)
{
    const int n = round->quick ? 22 : static_cast<int>(round->size);
    int64_t value = 0;
    tbb::task_arena &where = arena(round);
    const int64_t start = peer_now();
    where.execute([&] { value = fibonacci(n); });
    const int64_t elapsed = peer_now() - start;
    PEER_CHECK(value == peer_fibonacci(n));
    PEER_PARAMS(round, "fib=%d cutoff=none", n);
    return static_cast<double>(elapsed) / 1e9;
}

int main(int argc, char **argv)
{
    static const peer_case cases[] = {
        {"spawn", "ns/op", measure_spawn, 0, false, false},
        {"pool_noop", "ns/op", measure_noop, 1, false, false},
        {"pool_noop_many", "ns/op", measure_noop, 8, false, false},
        {"skynet", "s", measure_skynet, 1000000, true, false},
        {"fork_join", "s", measure_fibonacci, 27, false, false},
        {nullptr, nullptr, nullptr, 0, false, false},
    };
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", TBB_VERSION_MAJOR, TBB_VERSION_MINOR,
             TBB_VERSION_PATCH);
    return peer_main(argc, argv, "onetbb", version, cases, 0);
}
