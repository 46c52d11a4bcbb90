// The pool's cases for ants, with the parameters of bench/pool.c.
//
// ants has no batch, and makes no difference between threads and fibers. It has no handles:
// pool_task gives each task a channel for its result, as its users do. It has no queue: a task that
// waits is a goroutine that is blocked in Submit, and pool_queued counts that.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/ants/v2"
)

const (
	poolCapacity  = 10000
	sleepCapacity = 50000
	poolBatch     = 1000
	forever       = time.Hour
)

// moduleVersion is the version of the dependency whose path has this element.
func moduleVersion(name string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if strings.Contains(module.Path, "/"+name+"/") {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func nothing() {}

func newPool(capacity int) *ants.Pool {
	pool, err := ants.NewPool(capacity)
	check(err)
	return pool
}

func poolNoop(submitters int) (float64, string) {
	each := amount(2*1000*1000) / submitters
	pool := newPool(poolCapacity)
	submit := func() {
		for i := 0; i < each; i++ {
			check(pool.Submit(nothing))
		}
	}
	start := time.Now()
	if submitters == 1 {
		submit()
	} else {
		var done sync.WaitGroup
		done.Add(submitters)
		for i := 0; i < submitters; i++ {
			go func() {
				submit()
				done.Done()
			}()
		}
		done.Wait()
	}
	check(pool.ReleaseTimeout(forever))
	elapsed := time.Since(start)
	return float64(elapsed.Nanoseconds()) / float64(submitters*each),
		fmt.Sprintf("from=goroutine submitters=%d tasks=%d capacity=%d", submitters,
			submitters*each, poolCapacity)
}

func poolInvoke(int) (float64, string) {
	tasks := amount(2 * 1000 * 1000)
	pool, err := ants.NewPoolWithFunc(poolCapacity, func(any) {})
	check(err)
	start := time.Now()
	for i := 0; i < tasks; i++ {
		check(pool.Invoke(nil))
	}
	check(pool.ReleaseTimeout(forever))
	elapsed := time.Since(start)
	return float64(elapsed.Nanoseconds()) / float64(tasks),
		fmt.Sprintf("from=goroutine submitters=1 tasks=%d capacity=%d", tasks, poolCapacity)
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

func poolSleep(full int) (float64, string) {
	tasks := amount(full)
	var completed int64
	start := time.Now()
	pool := newPool(sleepCapacity)
	for i := 0; i < tasks; i++ {
		check(pool.Submit(func() {
			time.Sleep(10 * time.Millisecond)
			atomic.AddInt64(&completed, 1)
		}))
	}
	check(pool.ReleaseTimeout(forever))
	elapsed := time.Since(start)
	expect(atomic.LoadInt64(&completed), int64(tasks))
	return elapsed.Seconds(), fmt.Sprintf("tasks=%d sleep=10ms capacity=%d", tasks, sleepCapacity)
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
