// client.go: asks the server of serve.c by Go's net/http.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

var base string

func check(condition bool, format string, arguments ...interface{}) {
	if !condition {
		fmt.Fprintf(os.Stderr, "failed: "+format+"\n", arguments...)
		os.Exit(1)
	}
}

func numbers(count int) []byte {
	return bytes.Repeat([]byte("0123456789"), count/10+1)[:count]
}

// Hides the size of what it reads, so that it is sent in chunks.
type chunks struct{ io.Reader }

func do(client *http.Client, method, path string, body io.Reader, header http.Header, trailer http.Header) (*http.Response, []byte) {
	request, err := http.NewRequest(method, base+path, body)
	check(err == nil, "%v", err)
	for name, values := range header {
		request.Header[name] = values
	}
	request.Trailer = trailer
	response, err := client.Do(request)
	check(err == nil, "%s %s: %v", method, path, err)
	data, err := io.ReadAll(response.Body)
	check(err == nil, "%s %s: %v", method, path, err)
	response.Body.Close()
	return response, data
}

func talk(client *http.Client) {
	response, data := do(client, "GET", "/hello", nil, nil, nil)
	check(response.StatusCode == 200 && string(data) == "hello\n", "hello: %s", data)
	for _, count := range []int{0, 1, 16384, 1000000} {
		for _, path := range []string{"/size", "/chunked"} {
			_, data = do(client, "GET", fmt.Sprintf("%s?n=%d", path, count), nil, nil, nil)
			check(bytes.Equal(data, numbers(count)), "%s of %d", path, count)
		}
		_, data = do(client, "POST", "/echo", bytes.NewReader(numbers(count)), nil, nil)
		check(bytes.Equal(data, numbers(count)), "echo of %d", count)
		_, data = do(client, "PUT", "/echo", chunks{bytes.NewReader(numbers(count))}, nil, nil)
		check(bytes.Equal(data, numbers(count)), "echo of %d in chunks", count)
	}
	response, data = do(client, "HEAD", "/size?n=5", nil, nil, nil)
	check(response.ContentLength == 5 && len(data) == 0, "HEAD")

	expect := http.Header{"Expect": {"100-continue"}}
	_, data = do(client, "POST", "/echo", strings.NewReader("waited for"), expect, nil)
	check(string(data) == "waited for", "100-continue: %s", data)
	response, _ = do(client, "POST", "/limited", bytes.NewReader(numbers(1000)), expect, nil)
	check(response.StatusCode == 413, "413: %d", response.StatusCode)

	response, data = do(client, "POST", "/trailer", chunks{strings.NewReader("body")},
		http.Header{"Te": {"trailers"}}, http.Header{"X-After": {"all"}})
	check(string(data) == "all 4\n", "the request's trailer: %s", data)
	check(response.Trailer.Get("X-Sum") == "42", "the response's trailer: %v", response.Trailer)
}

func main() {
	base = "http://127.0.0.1:" + os.Args[1]
	transport := &http.Transport{ExpectContinueTimeout: time.Hour, MaxIdleConnsPerHost: 16}
	client := &http.Client{Transport: transport, Timeout: 2 * time.Minute}
	talk(client)
	var group sync.WaitGroup
	for i := 0; i < 16; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			talk(client)
		}()
	}
	group.Wait()
}
