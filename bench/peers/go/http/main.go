// The HTTP servers of Go that libweft-http is compared with: net/http and fasthttp, each as its
// manual writes one.
//
//	http --system net-http|fasthttp [--port N] [--header-timeout 10s] [--idle-timeout 60s]
//	http --versions
//
// The paths are those of bench/http/server.c: /hello, /json (the body comes back), /big (1 GB),
// /sleep?ms=N. It listens on 127.0.0.1, says "port N" when it does, and serves until it is killed.
// --versions says a line for each system.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	hello     = "hello, world\n"
	bigSize   = 1 << 30
	maxHeader = 16384
	maxBody   = 8 << 20
)

var (
	headerTimeout = flag.Duration("header-timeout", 10*time.Second, "for the head of a request")
	idleTimeout   = flag.Duration("idle-timeout", 60*time.Second, "between two requests")
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// zeros is the content of /big.
type zeros struct{}

func (zeros) Read(data []byte) (int, error) {
	clear(data)
	return len(data), nil
}

func nap(text string) {
	milliseconds, err := strconv.Atoi(text)
	if err == nil {
		time.Sleep(time.Duration(milliseconds) * time.Millisecond)
	}
}

func netHTTPEcho(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

func netHTTPBig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(bigSize))
	data := make([]byte, 65536)
	for sent := 0; sent < bigSize; sent += len(data) {
		if _, err := w.Write(data); err != nil {
			return
		}
	}
}

func netHTTPText(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, hello)
}

func netHTTP(listener net.Listener) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { netHTTPText(w) })
	routes.HandleFunc("POST /json", netHTTPEcho)
	routes.HandleFunc("GET /big", netHTTPBig)
	routes.HandleFunc("GET /sleep", func(w http.ResponseWriter, r *http.Request) {
		nap(r.URL.Query().Get("ms"))
		netHTTPText(w)
	})
	server := http.Server{
		Handler:           routes,
		ReadHeaderTimeout: *headerTimeout,
		IdleTimeout:       *idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
	return server.Serve(listener)
}

func fastText(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/plain")
	ctx.SetBodyString(hello)
}

func fastRoute(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/hello":
		fastText(ctx)
	case "/json":
		ctx.SetContentType("application/json")
		ctx.SetBody(ctx.PostBody())
	case "/big":
		ctx.SetContentType("application/octet-stream")
		ctx.SetBodyStream(io.LimitReader(zeros{}, bigSize), bigSize)
	case "/sleep":
		nap(string(ctx.QueryArgs().Peek("ms")))
		fastText(ctx)
	default:
		ctx.Error("not found", fasthttp.StatusNotFound)
	}
}

func fast(listener net.Listener) error {
	server := fasthttp.Server{
		Handler:            fastRoute,
		ReadTimeout:        *headerTimeout,
		IdleTimeout:        *idleTimeout,
		MaxRequestBodySize: maxBody,
	}
	return server.Serve(listener)
}

// versions says a line for each system: its name and its version without blanks.
func versions() {
	golang := strings.Fields(strings.TrimPrefix(runtime.Version(), "go"))[0]
	fmt.Println("net-http", golang)
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if strings.HasSuffix(module.Path, "/fasthttp") {
			fmt.Println("fasthttp", strings.TrimPrefix(module.Version, "v")+"+go"+golang)
		}
	}
}

func main() {
	system := flag.String("system", "net-http", "net-http or fasthttp")
	port := flag.Int("port", 0, "0 is any")
	says := flag.Bool("versions", false, "say the systems and their versions")
	flag.Parse()
	if *says {
		versions()
		return
	}
	serve := map[string]func(net.Listener) error{"net-http": netHTTP, "fasthttp": fast}[*system]
	if serve == nil {
		fmt.Fprintf(os.Stderr, "there is no system %s\n", *system)
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	check(err)
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	check(serve(listener))
}
