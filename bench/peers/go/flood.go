// A flood of tasks that sleep 10 ms, as bench/flood.c and the benchmark of ants: a goroutine for
// each, on a pool of 50,000, and the submits alone. _bytes and allocations are what go test
// -benchmem reports: the growth of TotalAlloc and Mallocs of runtime.MemStats.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

const floodCapacity = 50000

func floodCases() []benchCase {
	all := []benchCase{
		{name: "no_pool_sleep", cold: true, measure: flood(true), size: 1000000},
		{name: "no_pool_sleep_100k", cold: true, measure: flood(true), size: 100000},
	}
	for _, system := range poolSystems {
		if system != "go" { // that is no_pool_sleep
			all = append(all, benchCase{name: "pool_sleep", system: system, cold: true, measure: flood(true), size: 1000000},
				benchCase{name: "pool_sleep_100k", system: system, cold: true, measure: flood(true), size: 100000},
				benchCase{name: "pool_sleep_10m", system: system, cold: true, measure: flood(true), size: 10000000},
				benchCase{name: "throughput_10m", system: system, cold: true, measure: flood(false), size: 10000000})
		}
		all = append(all, benchCase{name: "throughput_100k", system: system, cold: true, measure: flood(false), size: 100000},
			benchCase{name: "throughput_1m", system: system, cold: true, measure: flood(false), size: 1000000})
	}
	return all
}

func sleep10ms() { time.Sleep(10 * time.Millisecond) }

// flood waits for the tasks, or only submits them.
func flood(waits bool) func(string, int) ([]figure, string) {
	return func(system string, full int) ([]figure, string) {
		tasks, task, only := amount(full), sleep10ms, " submit=only"
		var ended sync.WaitGroup
		var before, after runtime.MemStats
		if waits {
			only = ""
			ended.Add(tasks)
			task = func() {
				sleep10ms()
				ended.Done()
			}
		}
		runtime.ReadMemStats(&before)
		start := time.Now()
		submit := openPool(system, floodCapacity, task)
		for i := 0; i < tasks; i++ {
			submit()
		}
		ended.Wait()
		elapsed := time.Since(start)
		runtime.ReadMemStats(&after)
		return []figure{{"", elapsed.Seconds(), "s"}, {"_bytes", float64(after.TotalAlloc - before.TotalAlloc), "bytes"}},
			fmt.Sprintf("tasks=%d sleep=10ms capacity=%s%s allocations=%d", tasks,
				capacityText(system, floodCapacity), only, after.Mallocs-before.Mallocs)
	}
}
