// Work that begets work, as bench/tree.c.
package main

import (
	"fmt"
	"time"
)

var treeCases = []benchCase{
	{name: "skynet", cold: true, measure: by("s", measureSkynet), size: 1000000},
	{name: "fork_join", measure: by("s", measureFibonacci), size: 27},
}

const branches = 10

func skynet(parent chan int64, number, leaves int64) {
	if leaves == 1 {
		parent <- number
		return
	}
	children, sum := make(chan int64), int64(0)
	for i := int64(0); i < branches; i++ {
		go skynet(children, number+i*leaves/branches, leaves/branches)
	}
	for i := 0; i < branches; i++ {
		sum += <-children
	}
	parent <- sum
}

func measureSkynet(full int) (float64, string) {
	leaves := int64(amount(full))
	root := make(chan int64)
	start := time.Now()
	go skynet(root, 0, leaves)
	sum := <-root
	elapsed := time.Since(start)
	expect(sum, leaves*(leaves-1)/2)
	return elapsed.Seconds(), fmt.Sprintf("leaves=%d branches=%d", leaves, branches)
}

func fibonacci(n int) int64 {
	if n < 2 {
		return int64(n)
	}
	other := make(chan int64, 1)
	go func() { other <- fibonacci(n - 1) }()
	two := fibonacci(n - 2)
	return <-other + two
}

func iterated(n int) int64 {
	a, b := int64(0), int64(1)
	for ; n > 0; n-- {
		a, b = b, a+b
	}
	return a
}

func measureFibonacci(n int) (float64, string) {
	if *quick {
		n = 22
	}
	start := time.Now()
	value := fibonacci(n)
	elapsed := time.Since(start)
	expect(value, iterated(n))
	return elapsed.Seconds(), fmt.Sprintf("fib=%d cutoff=none", n)
}
