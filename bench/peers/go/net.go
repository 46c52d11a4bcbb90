// The cases of bench/net.c that Go has too, with the same parameters: echo over loopback TCP, and
// the memory of an idle connection (no goroutine each).
package main

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const message = 64

var netCases = []benchCase{
	{name: "echo", measure: by("ns/op", echo), size: 100},
	{name: "echo_one", one: true, measure: by("ns/op", echo), size: 100},
	{name: "echo_1", measure: by("ns/op", echo), size: 1},
	{name: "echo_1_one", one: true, measure: by("ns/op", echo), size: 1},
	{name: "conn_idle", cold: true, measure: by("bytes", connIdle), size: 5000},
	{name: "tick_lateness", cold: true, measure: tickLateness, size: byNanosleep},
	{name: "blocking_nanosleep", cold: true, measure: blockingLate, size: byNanosleep},
	{name: "blocking_flock", cold: true, measure: blockingLate, size: byFlock},
	{name: "blocking_loop", cold: true, measure: blockingLate, size: byLoop},
}

func answer(conn net.Conn) {
	data := make([]byte, message)
	for {
		got, err := conn.Read(data)
		if err != nil {
			break
		}
		_, err = conn.Write(data[:got])
		check(err)
	}
	conn.Close()
}

func echo(connections int) (float64, string) {
	messages := amount(100000) / connections
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	var done sync.WaitGroup
	start := time.Now()
	done.Add(connections + 1)
	go func() {
		for i := 0; i < connections; i++ {
			conn, err := listener.Accept()
			check(err)
			go answer(conn)
		}
		done.Done()
	}()
	for i := 0; i < connections; i++ {
		go func() {
			data := make([]byte, message)
			conn, err := net.Dial("tcp", listener.Addr().String())
			check(err)
			for k := 0; k < messages; k++ {
				_, err = conn.Write(data)
				check(err)
				_, err = io.ReadFull(conn, data)
				check(err)
			}
			conn.Close()
			done.Done()
		}()
	}
	done.Wait()
	elapsed := time.Since(start)
	listener.Close()
	return float64(elapsed.Nanoseconds()) / float64(connections*messages),
		fmt.Sprintf("connections=%d messages=%d bytes=%d", connections, messages, message)
}

func connIdle(full int) (float64, string) {
	pairs := amount(full)
	conns := make([]net.Conn, 2*pairs)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	before := resident()
	for i := 0; i < pairs; i++ {
		conns[2*i], err = net.Dial("tcp", listener.Addr().String())
		check(err)
		conns[2*i+1], err = listener.Accept()
		check(err)
	}
	bytes := float64(resident()-before) / float64(2*pairs)
	for _, conn := range conns {
		conn.Close()
	}
	listener.Close()
	return bytes, fmt.Sprintf("connections=%d", 2*pairs)
}
