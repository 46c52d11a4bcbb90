// The cases of weft-bench that Go has too, measured in the same way and written in the same JSON.
//
//	go run . -rounds 5 -procs 2 > go.json
//
// Every round of a case runs in a process of its own, which measures twice and keeps the second
// figure, except for the cases about a cold start (no_pool_sleep, parked, pool_sleep...). An
// operation is what it is in the case of the same name of weft-bench. GOGC and the like are left as
// they are by default. The cases of the pool are those of ants (pool.go).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type benchCase struct {
	name    string
	system  string // "" is Go itself
	unit    string
	one     bool // on one processor
	cold    bool
	measure func(size int) (float64, string)
	size    int
}

type result struct {
	Case      string  `json:"case"`
	System    string  `json:"system"`
	Version   string  `json:"version"`
	Unit      string  `json:"unit"`
	Median    float64 `json:"median"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	PeakRSSKB int64   `json:"peak_rss_kb"`
	Rounds    int     `json:"rounds"`
	Params    string  `json:"params"`
}

var cases = []benchCase{
	{name: "yield_2", unit: "ns/op", one: true, measure: yield, size: 2},
	{name: "yield_200", unit: "ns/op", one: true, measure: yield, size: 200},
	{name: "yield_1000", unit: "ns/op", one: true, measure: yield, size: 1000},
	{name: "yield_all", unit: "ns/op", measure: yield, size: 1000},
	{name: "spawn_one", unit: "ns/op", one: true, measure: spawn, size: 0},
	{name: "spawn_all", unit: "ns/op", measure: spawn, size: 1},
	{name: "spawn_spread", unit: "ns/op", measure: spawn, size: 0},
	{name: "recover", unit: "ns/op", one: true, measure: recoverCalls, size: 10000000},
	{name: "defer", unit: "ns/op", one: true, measure: deferCalls, size: 10000000},
	{name: "panic_recover", unit: "ns/op", one: true, measure: panicCalls, size: 100000},
	{name: "no_pool_sleep", unit: "s", cold: true, measure: flood, size: 1000000},
	{name: "parked", unit: "bytes", cold: true, measure: parked, size: 1000000},
	{name: "wg_fanin", unit: "ns/op", measure: fanIn, size: 1000000},
	{name: "wg_fanin_one", unit: "ns/op", one: true, measure: fanIn, size: 1000000},
	{name: "wg_fibers_one", unit: "ns/op", one: true, measure: fanInFibers, size: 1000000},
	{name: "wg_fibers_all", unit: "ns/op", measure: fanInFibers, size: 1000000},
	{name: "chan_unbuffered_one", unit: "ns/op", one: true, measure: stream, size: 0},
	{name: "chan_unbuffered_all", unit: "ns/op", measure: stream, size: 0},
	{name: "chan_buffered_one", unit: "ns/op", one: true, measure: stream, size: 128},
	{name: "chan_buffered_all", unit: "ns/op", measure: stream, size: 128},
	{name: "select_ready_one", unit: "ns/op", one: true, measure: selectAny, size: 128},
	{name: "select_ready_all", unit: "ns/op", measure: selectAny, size: 128},
	{name: "select_wait_one", unit: "ns/op", one: true, measure: selectAny, size: 0},
	{name: "select_wait_all", unit: "ns/op", measure: selectAny, size: 0},
	{name: "mutex", unit: "ns/op", one: true, measure: mutex, size: 1},
	{name: "mutex_contended_one", unit: "ns/op", one: true, measure: mutex, size: 8},
	{name: "mutex_contended_all", unit: "ns/op", measure: mutex, size: 8},
	{name: "mutex_yield_one", unit: "ns/op", one: true, measure: mutexYield, size: 8},
	{name: "mutex_yield_all", unit: "ns/op", measure: mutexYield, size: 8},
	{name: "rwmutex", unit: "ns/op", one: true, measure: rwmutex, size: 1},
	{name: "rwmutex_all", unit: "ns/op", measure: rwmutex, size: 8},
	{name: "echo_1", unit: "ns/op", measure: echo, size: 1},
	{name: "echo_1_one", unit: "ns/op", one: true, measure: echo, size: 1},
	{name: "echo_100", unit: "ns/op", measure: echo, size: 100},
	{name: "echo_100_one", unit: "ns/op", one: true, measure: echo, size: 100},
	{name: "conn_idle", unit: "bytes", cold: true, measure: connIdle, size: 5000},
	{name: "blocking_nanosleep", unit: "us", cold: true, measure: blockingLate(0.5), size: byNanosleep},
	{name: "blocking_nanosleep_p99", unit: "us", cold: true, measure: blockingLate(0.99), size: byNanosleep},
	{name: "blocking_flock", unit: "us", cold: true, measure: blockingLate(0.5), size: byFlock},
	{name: "blocking_flock_p99", unit: "us", cold: true, measure: blockingLate(0.99), size: byFlock},
	{name: "blocking_loop", unit: "us", cold: true, measure: blockingLate(0.5), size: byLoop},
	{name: "blocking_loop_p99", unit: "us", cold: true, measure: blockingLate(0.99), size: byLoop},
	{name: "pool_noop", system: "ants", unit: "ns/op", measure: poolNoop, size: 1},
	{name: "pool_noop_8", system: "ants", unit: "ns/op", measure: poolNoop, size: 8},
	{name: "pool_invoke", system: "ants", unit: "ns/op", measure: poolInvoke, size: 1},
	{name: "pool_task", system: "ants", unit: "ns/op", measure: poolTask, size: 1},
	{name: "pool_sleep", system: "ants", unit: "s", cold: true, measure: poolSleep, size: 1000000},
	{name: "pool_sleep_10m", system: "ants", unit: "s", cold: true, measure: poolSleep, size: 10000000},
	{name: "pool_queued", system: "ants", unit: "bytes", cold: true, measure: poolQueued, size: 1000000},
	{name: "pool_idle", system: "ants", unit: "bytes", cold: true, measure: poolIdle, size: 10000},
}

var quick = flag.Bool("quick", false, "a tenth of the work")

func amount(full int) int {
	if *quick {
		return full / 10
	}
	return full
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
	batches := amount(2*1000*1000) / batch / spawners
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

func flood(full int) (float64, string) {
	tasks := amount(full)
	var wg sync.WaitGroup
	wg.Add(tasks)
	start := time.Now()
	for i := 0; i < tasks; i++ {
		go func() {
			time.Sleep(10 * time.Millisecond)
			wg.Done()
		}()
	}
	wg.Wait()
	return time.Since(start).Seconds(), fmt.Sprintf("tasks=%d sleep=10ms", tasks)
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

// expect ends the round if what came is not what was sent.
func expect(got, want int64) {
	if got != want {
		fmt.Fprintf(os.Stderr, "%d came instead of %d\n", got, want)
		os.Exit(1)
	}
}

func stream(capacity int) (float64, string) {
	count := int64(amount(5 * 1000 * 1000))
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
	each := int64(amount(2*1000*1000) / channels)
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
	each := amount(8*1000*1000) / fibers
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

// round is what the child process does.
func round(name string) {
	for _, one := range cases {
		if one.name != name {
			continue
		}
		if !one.cold {
			one.measure(one.size)
		}
		value, params := one.measure(one.size)
		fmt.Printf("%g %s\n", value, params)
	}
}

// run starts a child for each round and reduces what they say.
func run(one benchCase, rounds, procs int) (result, error) {
	var values []float64
	r := result{Case: one.name, System: "go", Version: strings.TrimPrefix(runtime.Version(), "go"),
		Unit: one.unit, Rounds: rounds}
	if one.system != "" {
		r.System = one.system
		r.Version = moduleVersion(one.system) + " on go " + r.Version
	}
	if one.one {
		procs = 1
	}
	for i := 0; i < rounds; i++ {
		child := exec.Command(os.Args[0], "-child", one.name, "-quick="+strconv.FormatBool(*quick))
		child.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
		child.Stderr = os.Stderr
		output, err := child.Output()
		if err != nil {
			return r, err
		}
		parts := strings.SplitN(strings.TrimSpace(string(output)), " ", 2)
		value, err := strconv.ParseFloat(parts[0], 64)
		if err != nil {
			return r, err
		}
		values = append(values, value)
		r.Params = fmt.Sprintf("processors=%d %s", procs, parts[1])
		usage := child.ProcessState.SysUsage().(*syscall.Rusage)
		if usage.Maxrss > r.PeakRSSKB {
			r.PeakRSSKB = usage.Maxrss
		}
	}
	sort.Float64s(values)
	r.Median, r.Low, r.High = values[len(values)/2], values[0], values[len(values)-1]
	return r, nil
}

func wanted(name string) bool {
	for _, prefix := range flag.Args() {
		if name == prefix || strings.HasPrefix(name, prefix+"_") {
			return true
		}
	}
	return flag.NArg() == 0
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each case")
	procs := flag.Int("procs", runtime.GOMAXPROCS(0), "GOMAXPROCS for the cases that use all")
	child := flag.String("child", "", "run one round of a case; for the program's own use")
	flag.Parse()
	if *child != "" {
		round(*child)
		return
	}
	if *rounds < 1 || *procs < 1 {
		fmt.Fprintln(os.Stderr, "rounds and procs must be at least 1")
		os.Exit(2)
	}
	results := []result{}
	for _, one := range cases {
		if !wanted(one.name) {
			continue
		}
		r, err := run(one, *rounds, *procs)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", one.name, err)
			os.Exit(1)
		}
		results = append(results, r)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(results); err != nil {
		os.Exit(1)
	}
}
