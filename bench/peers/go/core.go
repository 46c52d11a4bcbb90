// What the language has: goroutines, channels, select, mutexes, timers.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var coreCases = []benchCase{
	{name: "yield", measure: by("ns/op", yield), size: 1000},
	{name: "yield_one", one: true, measure: by("ns/op", yield), size: 1000},
	{name: "yield_2", one: true, measure: by("ns/op", yield), size: 2},
	{name: "yield_200", one: true, measure: by("ns/op", yield), size: 200},
	{name: "spawn", measure: by("ns/op", spawn), size: 1},
	{name: "spawn_one", one: true, measure: by("ns/op", spawn), size: 0},
	{name: "spawn_spread", measure: by("ns/op", spawn), size: 0},
	{name: "chan_unbuffered", measure: by("ns/op", stream), size: 0},
	{name: "chan_unbuffered_one", one: true, measure: by("ns/op", stream), size: 0},
	{name: "chan_buffered", measure: by("ns/op", stream), size: 128},
	{name: "chan_buffered_one", one: true, measure: by("ns/op", stream), size: 128},
	{name: "select", measure: by("ns/op", selectAny), size: 128},
	{name: "select_ready_one", one: true, measure: by("ns/op", selectAny), size: 128},
	{name: "select_wait_one", one: true, measure: by("ns/op", selectAny), size: 0},
	{name: "select_wait_all", measure: by("ns/op", selectAny), size: 0},
	{name: "mutex", measure: by("ns/op", mutex), size: 8},
	{name: "mutex_one", one: true, measure: by("ns/op", mutex), size: 8},
	{name: "mutex_alone", one: true, measure: by("ns/op", mutex), size: 1},
	{name: "mutex_yield_one", one: true, measure: by("ns/op", mutexYield), size: 8},
	{name: "mutex_yield_all", measure: by("ns/op", mutexYield), size: 8},
	{name: "parked", cold: true, measure: by("bytes", parked), size: 1000000},
	{name: "timers", cold: true, measure: by("ns/op", timers), size: 1000000},
	{name: "timers_100k", cold: true, measure: by("ns/op", timers), size: 100000},
	{name: "timers_10k", cold: true, measure: by("ns/op", timers), size: 10000},
	{name: "timers_1k", cold: true, measure: by("ns/op", timers), size: 1000},
}

func yield(fibers int) (float64, string) {
	yields := amount(10*1000*1000) / fibers
	var done sync.WaitGroup
	done.Add(fibers)
	start := time.Now()
	for i := 0; i < fibers; i++ {
		go func() {
			for k := 0; k < yields; k++ {
				runtime.Gosched()
			}
			done.Done()
		}()
	}
	done.Wait()
	elapsed := time.Since(start)
	return float64(elapsed.Nanoseconds()) / float64(fibers*yields),
		fmt.Sprintf("fibers=%d yields=%d", fibers, yields)
}

const batch = 100

func spawnBatches(batches int) {
	var wg sync.WaitGroup
	for i := 0; i < batches; i++ {
		wg.Add(batch)
		for k := 0; k < batch; k++ {
			go wg.Done()
		}
		wg.Wait()
	}
}

func spawn(perProcessor int) (float64, string) {
	spawners := 1
	if perProcessor > 0 {
		spawners = perProcessor * runtime.GOMAXPROCS(0)
	}
	batches := amount(500*1000) / batch / spawners
	var finished sync.WaitGroup
	finished.Add(spawners)
	start := time.Now()
	for i := 0; i < spawners; i++ {
		go func() {
			spawnBatches(batches)
			finished.Done()
		}()
	}
	finished.Wait()
	elapsed := time.Since(start)
	return float64(elapsed.Nanoseconds()) / float64(batches*batch*spawners),
		fmt.Sprintf("spawners=%d batch=%d batches=%d", spawners, batch, batches)
}

func stream(capacity int) (float64, string) {
	count := int64(amount(2 * 1000 * 1000))
	c := make(chan int64, capacity)
	var sum int64
	var done sync.WaitGroup
	done.Add(2)
	start := time.Now()
	go func() {
		var received int64
		for value := range c {
			received += value
		}
		sum = received
		done.Done()
	}()
	go func() {
		for i := int64(1); i <= count; i++ {
			c <- i
		}
		close(c)
		done.Done()
	}()
	done.Wait()
	elapsed := time.Since(start)
	expect(sum, count*(count+1)/2)
	return float64(elapsed.Nanoseconds()) / float64(count),
		fmt.Sprintf("elements=%d capacity=%d", count, capacity)
}

const channels = 8

func receiveAny(c *[channels]chan int64, count int64) int64 {
	var value, sum int64
	for i := int64(0); i < count; i++ {
		select {
		case value = <-c[0]:
		case value = <-c[1]:
		case value = <-c[2]:
		case value = <-c[3]:
		case value = <-c[4]:
		case value = <-c[5]:
		case value = <-c[6]:
		case value = <-c[7]:
		}
		sum += value
	}
	return sum
}

// selectAny has a sender for each channel; or, without a capacity, one that sends to all in turn.
func selectAny(capacity int) (float64, string) {
	senders := channels
	if capacity == 0 {
		senders = 1
	}
	each := int64(amount(1000*1000) / channels)
	var c [channels]chan int64
	for i := range c {
		c[i] = make(chan int64, capacity)
	}
	var sum int64
	var done sync.WaitGroup
	done.Add(1 + senders)
	start := time.Now()
	go func() {
		sum = receiveAny(&c, channels*each)
		done.Done()
	}()
	for k := 0; k < senders; k++ {
		mine := c[k*channels/senders : (k+1)*channels/senders]
		go func() {
			for i := int64(1); i <= each; i++ {
				for _, one := range mine {
					one <- i
				}
			}
			done.Done()
		}()
	}
	done.Wait()
	elapsed := time.Since(start)
	expect(sum, channels*each*(each+1)/2)
	return float64(elapsed.Nanoseconds()) / float64(channels*each),
		fmt.Sprintf("channels=%d capacity=%d elements=%d", channels, capacity, channels*each)
}

// inFibers runs f in so many goroutines at once; how long until all have ended, by operations.
func inFibers(fibers, operations int, f func()) float64 {
	var done sync.WaitGroup
	done.Add(fibers)
	start := time.Now()
	for i := 0; i < fibers; i++ {
		go func() {
			f()
			done.Done()
		}()
	}
	done.Wait()
	return float64(time.Since(start).Nanoseconds()) / float64(operations)
}

func mutex(fibers int) (float64, string) {
	each := amount(2*1000*1000) / fibers
	var lock sync.Mutex
	var counter int64
	value := inFibers(fibers, fibers*each, func() {
		for i := 0; i < each; i++ {
			lock.Lock()
			counter++
			lock.Unlock()
		}
	})
	expect(counter, int64(fibers*each))
	return value, fmt.Sprintf("fibers=%d operations=%d", fibers, fibers*each)
}

func mutexYield(fibers int) (float64, string) {
	each := amount(2*1000*1000) / fibers
	var lock sync.Mutex
	var counter int64
	value := inFibers(fibers, fibers*each, func() {
		for i := 0; i < each; i++ {
			lock.Lock()
			counter++
			runtime.Gosched()
			lock.Unlock()
		}
	})
	expect(counter, int64(fibers*each))
	return value, fmt.Sprintf("fibers=%d operations=%d", fibers, fibers*each)
}

func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func parked(full int) (float64, string) {
	fibers := amount(full)
	var arrived, done sync.WaitGroup
	gate := make(chan struct{})
	arrived.Add(fibers)
	done.Add(fibers)
	before := resident()
	for i := 0; i < fibers; i++ {
		go func() {
			arrived.Done()
			<-gate
			done.Done()
		}()
	}
	arrived.Wait()
	bytes := float64(resident()-before) / float64(fibers)
	close(gate)
	done.Wait()
	return bytes, fmt.Sprintf("fibers=%d", fibers)
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// timers: as bench/timers.c: the CPU time of arming them all, each due at a random moment, and of
// their firing.
func timers(full int) (float64, string) {
	count, ahead := amount(full), time.Second
	if *quick {
		ahead = 200 * time.Millisecond
	}
	var done sync.WaitGroup
	done.Add(count)
	before, start := processorTime(), time.Now()
	for i := 0; i < count; i++ {
		due := start.Add(ahead + time.Duration(rand.Int63n(int64(ahead))))
		time.AfterFunc(time.Until(due), done.Done)
	}
	done.Wait()
	return float64(processorTime()-before) / float64(count), fmt.Sprintf("timers=%d due=%d..%dms time=cpu",
		count, ahead.Milliseconds(), 2*ahead.Milliseconds())
}
