// Cases that are not in the comparison of all systems, for work on weft itself: run them by their
// names.
package main

import (
	"fmt"
	"sync"
	"time"
)

var otherCases = []benchCase{
	{name: "recover", one: true, measure: by("ns/op", recoverCalls), size: 10000000},
	{name: "defer", one: true, measure: by("ns/op", deferCalls), size: 10000000},
	{name: "panic_recover", one: true, measure: by("ns/op", panicCalls), size: 100000},
	{name: "wg_fanin", measure: by("ns/op", fanIn), size: 1000000},
	{name: "wg_fanin_one", one: true, measure: by("ns/op", fanIn), size: 1000000},
	{name: "wg_fibers_one", one: true, measure: by("ns/op", fanInFibers), size: 1000000},
	{name: "wg_fibers_all", measure: by("ns/op", fanInFibers), size: 1000000},
	{name: "rwmutex", one: true, measure: by("ns/op", rwmutex), size: 1},
	{name: "rwmutex_all", measure: by("ns/op", rwmutex), size: 8},
}

// A function with a recover point, one with a deferred call, and a panic ten calls deep.

var sink int

func count() { sink++ }

//go:noinline
func recovered(function func()) {
	defer func() {
		if recover() != nil {
			sink++
		}
	}()
	function()
}

//go:noinline
func deferred() {
	defer count()
	sink++
}

//go:noinline
func descend(depth int) {
	if depth == 0 {
		panic("at the bottom")
	}
	descend(depth - 1)
	sink++
}

func panicDeep() {
	defer count()
	descend(8)
}

func timed(count int, call func()) (float64, string) {
	start := time.Now()
	for i := 0; i < count; i++ {
		call()
	}
	return float64(time.Since(start).Nanoseconds()) / float64(count), fmt.Sprintf("calls=%d", count)
}

func recoverCalls(size int) (float64, string) {
	return timed(amount(size), func() { recovered(count) })
}

func deferCalls(size int) (float64, string) { return timed(amount(size), deferred) }

func panicCalls(size int) (float64, string) {
	return timed(amount(size), func() { recovered(panicDeep) })
}

func fanIn(full int) (float64, string) {
	const fibers = 8
	each := amount(full) / fibers
	var start, wg sync.WaitGroup
	start.Add(1)
	wg.Add(fibers * each)
	for i := 0; i < fibers; i++ {
		go func() {
			start.Wait()
			for k := 0; k < each; k++ {
				wg.Done()
			}
		}()
	}
	began := time.Now()
	start.Done()
	wg.Wait()
	elapsed := time.Since(began)
	return float64(elapsed.Nanoseconds()) / float64(fibers*each),
		fmt.Sprintf("fibers=%d dones=%d", fibers, fibers*each)
}

func fanInFibers(full int) (float64, string) {
	fibers := amount(full)
	var wg sync.WaitGroup
	wg.Add(fibers)
	start := time.Now()
	for i := 0; i < fibers; i++ {
		go wg.Done()
	}
	wg.Wait()
	elapsed := time.Since(start)
	return float64(elapsed.Nanoseconds()) / float64(fibers), fmt.Sprintf("fibers=%d", fibers)
}

func rwmutex(fibers int) (float64, string) {
	const writeEvery = 100
	each := amount(8*1000*1000) / fibers
	var lock sync.RWMutex
	var counter int64
	value := inFibers(fibers, fibers*each, func() {
		var last int64
		for i := 0; i < each; i++ {
			if i%writeEvery == 0 {
				lock.Lock()
				counter++
				lock.Unlock()
				continue
			}
			lock.RLock()
			now := counter
			lock.RUnlock()
			if now < last {
				expect(now, last)
			}
			last = now
		}
	})
	expect(counter, int64(fibers*(each/writeEvery)))
	return value,
		fmt.Sprintf("fibers=%d operations=%d writes=1/%d", fibers, fibers*each, writeEvery)
}
