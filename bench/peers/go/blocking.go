package main

import (
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How late others are while goroutines block their threads in system calls (by package syscall,
// without cgo), or compute. As bench/blocking.c.
const (
	byNanosleep = iota
	byLoop
	byFlock
)

const (
	blockingTickers  = 1000
	blockingBlockers = 64
	blockingTime     = 200 * time.Millisecond
)

func blockBy(way int, path string) {
	switch way {
	case byNanosleep:
		left := syscall.NsecToTimespec(int64(blockingTime))
		for syscall.Nanosleep(&left, &left) == syscall.EINTR { // the scheduler's own signals
		}
	case byLoop:
		for end := time.Now().Add(blockingTime); time.Now().Before(end); {
		}
	case byFlock:
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		for syscall.Flock(fd, syscall.LOCK_EX) == syscall.EINTR {
		}
		syscall.Close(fd)
	}
}

// tickLateness is the case of the comparison: the 99th percentile, in seconds.
func tickLateness(_ string, way int) ([]figure, string) {
	const period = 10 * time.Millisecond
	blocking := blockingBlockers
	if *quick {
		blocking = 16
	}
	figures, _ := runBlocking(way, blocking, func(counts, over *atomic.Int64) (late []float64) {
		for due := time.Now().Add(period); ; due = due.Add(period) {
			time.Sleep(time.Until(due))
			began, ended, at := counts.Load(), over.Load(), int64(due.Sub(epoch))
			if ended != 0 && at > ended {
				return late
			}
			if began != 0 && at >= began {
				late = append(late, float64(time.Since(due))/1000)
			}
		}
	})
	params := fmt.Sprintf("tickers=%d period=10ms blockers=%d each=200ms quantile=0.99 median=%.3gs", blockingTickers,
		blocking, figures[0].value/1e6)
	return []figure{{"", figures[1].value / 1e6, "s"}}, params
}

func blockingLate(_ string, way int) ([]figure, string) {
	return runBlocking(way, blockingBlockers, func(counts, over *atomic.Int64) (late []float64) {
		for over.Load() == 0 {
			deadline := time.Now().Add(time.Millisecond)
			time.Sleep(time.Millisecond)
			if counts.Load() != 0 {
				late = append(late, float64(time.Since(deadline))/1000)
			}
		}
		return late
	})
}

var epoch = time.Now()

// runBlocking lets tickers tick while others block; they are told when it counts, and when it is
// over, both as nanoseconds since the epoch, 0 before.
func runBlocking(way, blocking int, ticker func(counts, over *atomic.Int64) []float64) ([]figure, string) {
	var counts, over atomic.Int64
	var tickers, blockers sync.WaitGroup
	late := make([][]float64, blockingTickers)
	file, err := os.CreateTemp("", "weft-bench-")
	if err != nil {
		panic(err)
	}
	defer os.Remove(file.Name())
	syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	for i := 0; i < blockingTickers; i++ {
		tickers.Add(1)
		go func(i int) {
			defer tickers.Done()
			late[i] = ticker(&counts, &over)
		}(i)
	}
	time.Sleep(50 * time.Millisecond)
	counts.Store(int64(time.Since(epoch)))
	for i := 0; i < blocking; i++ {
		blockers.Add(1)
		go func() {
			defer blockers.Done()
			blockBy(way, file.Name())
		}()
	}
	time.Sleep(blockingTime)
	syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	blockers.Wait()
	over.Store(int64(time.Since(epoch)))
	tickers.Wait()
	var all []float64
	for _, one := range late {
		all = append(all, one...)
	}
	sort.Float64s(all)
	params := fmt.Sprintf("tickers=%d blockers=%d each=200ms ticks=%d", blockingTickers, blocking, len(all))
	at := func(share float64) float64 { return all[int(share*float64(len(all)-1))] }
	return []figure{{"", at(0.5), "us"}, {"_p99", at(0.99), "us"}}, params
}
