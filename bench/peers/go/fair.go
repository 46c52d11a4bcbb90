package main

import (
	"fmt"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The worst case of those who share the processors with many others. As bench/fair.c; what blocks
// does so by package syscall, without cgo.
var fairCases = []benchCase{
	{name: "ticker_block", cold: true, measure: tickerBeside, size: 0},
	{name: "ticker_cpu", cold: true, measure: tickerBeside, size: 1},
	{name: "yield_turns_10", cold: true, measure: yieldTurns, size: 10},
	{name: "yield_turns_10_one", one: true, cold: true, measure: yieldTurns, size: 10},
	{name: "yield_turns_1k", cold: true, measure: yieldTurns, size: 1000},
	{name: "yield_turns_1k_one", one: true, cold: true, measure: yieldTurns, size: 1000},
	{name: "yield_turns_100k", cold: true, measure: yieldTurns, size: 100000},
	{name: "yield_turns_100k_one", one: true, cold: true, measure: yieldTurns, size: 100000},
	{name: "spawn_yield", cold: true, measure: by("fibers", spawnYield)},
	{name: "block_short", cold: true, measure: by("s", blockShort)},
	{name: "ticks_1", measure: ticks, size: 1},
	{name: "ticks_10", measure: ticks, size: 10},
	{name: "ticks_100", measure: ticks, size: 100},
	{name: "ticks_1k", measure: ticks, size: 1000},
	{name: "ticks_1_one", one: true, measure: ticks, size: 1},
}

func crowdSize() int {
	if *quick {
		return 1000
	}
	return 5000
}

func block(duration time.Duration) {
	left := syscall.NsecToTimespec(int64(duration))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR { // the scheduler's own signals
	}
}

func compute(duration time.Duration) {
	for end := time.Now().Add(duration); time.Now().Before(end); {
	}
}

func tickerBeside(_ string, way int) ([]figure, string) {
	var over atomic.Bool
	var ticker, crowd sync.WaitGroup
	var late []float64
	ticker.Add(1)
	go func() {
		defer ticker.Done()
		for due := time.Now().Add(time.Millisecond); !over.Load(); due = due.Add(time.Millisecond) {
			time.Sleep(time.Until(due))
			late = append(late, time.Since(due).Seconds())
		}
	}()
	time.Sleep(10 * time.Millisecond)
	count := crowdSize()
	crowd.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			defer crowd.Done()
			if way == 0 {
				block(200 * time.Millisecond)
			} else {
				compute(300 * time.Microsecond)
			}
		}()
	}
	crowd.Wait()
	over.Store(true)
	ticker.Wait()
	sort.Float64s(late)
	return []figure{{"", late[len(late)-1], "s"}, {"_median", late[len(late)/2], "s"}},
		fmt.Sprintf("crowd=%d ticks=%d", count, len(late))
}

func yieldTurns(_ string, count int) ([]figure, string) {
	type yielder struct {
		turns   int
		longest time.Duration
	}
	var turn time.Duration
	if count <= 1000 {
		turn = 50 * time.Microsecond
	}
	var done sync.WaitGroup
	yielders := make([]yielder, count)
	var begun atomic.Bool
	var begin, end time.Time
	done.Add(count)
	for i := range yielders {
		go func(self *yielder) {
			defer done.Done()
			for !begun.Load() {
				runtime.Gosched()
			}
			left := begin
			for now := time.Now(); now.Before(end); now = time.Now() {
				self.longest = max(self.longest, now.Sub(left))
				self.turns++
				if turn != 0 {
					compute(turn)
				}
				left = time.Now()
				runtime.Gosched()
			}
			self.longest = max(self.longest, end.Sub(left))
		}(&yielders[i])
	}
	time.Sleep(100 * time.Millisecond)
	begin = time.Now()
	end = begin.Add(time.Second)
	begun.Store(true)
	done.Wait()
	least, most, longest := yielders[0].turns, 0, time.Duration(0)
	for i := range yielders {
		least = min(least, yielders[i].turns)
		most = max(most, yielders[i].turns)
		longest = max(longest, yielders[i].longest)
	}
	return []figure{{"", float64(most) / float64(max(least, 1)), "x"}, {"_wait", longest.Seconds(), "s"}},
		fmt.Sprintf("fibers=%d turn=%dus turns=%d..%d", count, turn/time.Microsecond, least, most)
}

func spawnYield(_ int) (float64, string) {
	var begun atomic.Int64
	var count, most int64
	for end := time.Now().Add(time.Second / 2); time.Now().Before(end); runtime.Gosched() {
		most = max(most, count-begun.Load())
		for i := 0; i < 1000; i++ {
			count++
			go begun.Add(1)
		}
	}
	return float64(most), "each=1000"
}

func blockShort(_ int) (float64, string) {
	var crowd sync.WaitGroup
	count := crowdSize()
	start := time.Now()
	crowd.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			defer crowd.Done()
			for k := 0; k < 5; k++ {
				block(100 * time.Microsecond)
				runtime.Gosched()
			}
		}()
	}
	crowd.Wait()
	return time.Since(start).Seconds(), fmt.Sprintf("fibers=%d calls=5 each=100us", count)
}

// ticks: as bench/ticks.c: CPU time of a tick, and how often a thread went to sleep for it.
func ticks(_ string, count int) ([]figure, string) {
	length := time.Duration(amount(int(time.Second)))
	var done sync.WaitGroup
	done.Add(count)
	begin := time.Now().Add(10 * time.Millisecond)
	end := begin.Add(length)
	before := threadSleeps()
	used := processorTime()
	for i := 0; i < count; i++ {
		go func() {
			defer done.Done()
			for due := begin.Add(time.Duration(i) * time.Millisecond / time.Duration(count)); due.Before(end); due = due.Add(time.Millisecond) {
				time.Sleep(time.Until(due))
			}
		}()
	}
	done.Wait()
	all := float64(count) * float64(length/time.Millisecond)
	return []figure{{"", float64(processorTime()-used) / all, "ns/op"},
			{"_sleeps", float64(threadSleeps()-before) / all, "x"}},
		fmt.Sprintf("tickers=%d period=1ms for=%dms time=cpu", count, length.Milliseconds())
}

func threadSleeps() int64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Nvcsw
}
