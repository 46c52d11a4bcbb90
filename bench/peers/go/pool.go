// The pool's cases, with the parameters of bench/pool.c: for ants, for errgroup with a limit, and
// for a goroutine for each task (go), which has no limit.
//
// Who waits for the end does so by a wait group, as the benchmark and the manual of ants do: so a
// task is a call of Done. ants has no batch, and makes no difference between threads and fibers. It
// has no handles: pool_task gives each task a channel for its result, as its users do. It has no
// queue: a task that waits is a goroutine that is blocked in Submit, and pool_queued counts that.
package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"
)

const (
	poolCapacity = 10000
	multiPools   = 10
	poolBatch    = 1000
	forever      = time.Hour
)

var poolSystems = []string{"go", "ants", "ants-func", "ants-multi", "errgroup"}

func poolCases() []benchCase {
	all := []benchCase{
		{name: "pool_invoke", system: "ants-func", measure: poolNoop, size: 1},
		{name: "pool_task", system: "ants", measure: by("ns/op", poolTask)},
		{name: "pool_queued", system: "ants", cold: true, measure: by("bytes", poolQueued), size: 1000000},
		{name: "pool_idle", system: "ants", cold: true, measure: by("bytes", poolIdle), size: 10000},
	}
	for _, system := range poolSystems {
		all = append(all, benchCase{name: "pool_noop", system: system, measure: poolNoop, size: 1},
			benchCase{name: "pool_noop_many", system: system, measure: poolNoop, size: 8})
	}
	return all
}

// openPool gives a function that submits task to a new pool of a system. As in the benchmark of
// ants, a worker that is idle stays for ten seconds, and a multi-pool has ten pools. (Invoke(nil)
// would end the worker.)
func openPool(system string, capacity int, task func()) func() {
	expiry := ants.WithExpiryDuration(10 * time.Second)
	switch system {
	case "ants":
		pool, err := ants.NewPool(capacity, expiry)
		check(err)
		return func() { check(pool.Submit(task)) }
	case "ants-func":
		pool, err := ants.NewPoolWithFunc(capacity, func(any) { task() }, expiry)
		check(err)
		return func() { check(pool.Invoke(1)) }
	case "ants-multi":
		pool, err := ants.NewMultiPool(multiPools, capacity/multiPools, ants.RoundRobin, expiry)
		check(err)
		return func() { check(pool.Submit(task)) }
	case "errgroup":
		var group errgroup.Group
		group.SetLimit(capacity)
		return func() { group.Go(func() error { task(); return nil }) }
	}
	return func() { go task() }
}

func capacityText(system string, capacity int) string {
	if system == "go" {
		return "none"
	}
	return fmt.Sprint(capacity)
}

func poolNoop(system string, submitters int) ([]figure, string) {
	each := amount(1000*1000) / submitters
	var ended sync.WaitGroup
	ended.Add(submitters * each)
	submit := openPool(system, poolCapacity, ended.Done)
	start := time.Now()
	for i := 0; i < submitters; i++ {
		go func() {
			for i := 0; i < each; i++ {
				submit()
			}
		}()
	}
	ended.Wait()
	elapsed := time.Since(start)
	return []figure{{"", float64(elapsed.Nanoseconds()) / float64(submitters*each), "ns/op"}},
		fmt.Sprintf("from=goroutine submitters=%d tasks=%d capacity=%s", submitters, submitters*each,
			capacityText(system, poolCapacity))
}

func newPool(capacity int) *ants.Pool {
	pool, err := ants.NewPool(capacity)
	check(err)
	return pool
}

func poolTask(int) (float64, string) {
	tasks := amount(500 * 1000)
	pool := newPool(poolCapacity)
	var results [poolBatch]chan int
	start := time.Now()
	for i := 0; i < tasks; i += poolBatch {
		for k := range results {
			k, result := k, make(chan int, 1)
			results[k] = result
			check(pool.Submit(func() { result <- k }))
		}
		for k := range results {
			expect(int64(<-results[k]), int64(k))
		}
	}
	check(pool.ReleaseTimeout(forever))
	elapsed := time.Since(start)
	return float64(elapsed.Nanoseconds()) / float64(tasks),
		fmt.Sprintf("from=goroutine tasks=%d capacity=%d handle=channel", tasks, poolCapacity)
}

func poolQueued(full int) (float64, string) {
	tasks := amount(full)
	pool := newPool(1)
	gate := make(chan struct{})
	check(pool.Submit(func() { <-gate }))
	var done sync.WaitGroup
	done.Add(tasks)
	before := resident()
	for i := 0; i < tasks; i++ {
		go func() {
			check(pool.Submit(done.Done))
		}()
	}
	for pool.Waiting() < tasks {
		time.Sleep(time.Millisecond)
	}
	bytes := float64(resident()-before) / float64(tasks)
	close(gate)
	done.Wait()
	check(pool.ReleaseTimeout(forever))
	return bytes, fmt.Sprintf("tasks=%d capacity=1 waiting=goroutines", tasks)
}

func poolIdle(full int) (float64, string) {
	count := amount(full)
	pools := make([]*ants.Pool, count)
	for i := range pools {
		pools[i] = nil // touched before it is counted
	}
	before := resident()
	for i := range pools {
		pools[i] = newPool(poolCapacity)
	}
	bytes := float64(resident()-before) / float64(count)
	for i := range pools {
		check(pools[i].ReleaseTimeout(forever))
	}
	return bytes, fmt.Sprintf("pools=%d", count)
}
