// The cases of weft-bench for Go, and for the pools that its programs use: ants and errgroup.
//
// It speaks as all programs in bench/peers (bench/compare/README.md): --list, and --case NAME for
// one round of a case in this process, which measures twice and keeps the second figure unless the
// case is about a cold start. An operation is what it is in the case of the same name of
// weft-bench. GOGC and the like are left as they are by default.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// A figure of a case; the suffix is for its name.
type figure struct {
	suffix string
	value  float64
	unit   string
}

type benchCase struct {
	name    string
	system  string // "" is Go itself
	one     bool   // on one processor
	cold    bool
	measure func(system string, size int) ([]figure, string)
	size    int
}

// by makes a measure of a function that has a single figure, the same for all systems.
func by(unit string, measure func(size int) (float64, string)) func(string, int) ([]figure, string) {
	return func(_ string, size int) ([]figure, string) {
		value, params := measure(size)
		return []figure{{"", value, unit}}, params
	}
}

func cases() []benchCase {
	all := []benchCase{}
	for _, group := range [][]benchCase{coreCases, poolCases(), floodCases(), treeCases, netCases, fairCases, otherCases} {
		all = append(all, group...)
	}
	return all
}

var quick = flag.Bool("quick", false, "a tenth of the work")

func amount(full int) int {
	if *quick {
		return full / 10
	}
	return full
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// expect ends the round if what came is not what was sent.
func expect(got, want int64) {
	if got != want {
		fmt.Fprintf(os.Stderr, "%d came instead of %d\n", got, want)
		os.Exit(1)
	}
}

func (one benchCase) systemName() string {
	if one.system == "" {
		return "go"
	}
	return one.system
}

// version is that of the module behind a system, and of Go.
func version(system string) string {
	golang := strings.Fields(strings.TrimPrefix(runtime.Version(), "go"))[0]
	path := map[string]string{"ants": "/ants/", "errgroup": "x/sync"}[strings.Split(system, "-")[0]]
	info, ok := debug.ReadBuildInfo()
	if path == "" || !ok {
		return golang
	}
	for _, module := range info.Deps {
		if strings.Contains(module.Path, path) {
			return strings.TrimPrefix(module.Version, "v") + "+go" + golang
		}
	}
	return "unknown+go" + golang
}

func list() {
	for _, one := range cases() {
		fmt.Println(one.name, one.systemName(), version(one.systemName()))
	}
}

func round(one benchCase, processors int) {
	if one.one {
		processors = 1
	}
	runtime.GOMAXPROCS(processors)
	if !one.cold {
		one.measure(one.systemName(), one.size)
	}
	figures, params := one.measure(one.systemName(), one.size)
	for _, figure := range figures {
		fmt.Printf("%s%s %.9g %s processors=%d %s\n", one.name, figure.suffix, figure.value, figure.unit,
			processors, params)
	}
}

func main() {
	lists := flag.Bool("list", false, "show the cases: name, system, version")
	name := flag.String("case", "", "run one round of this case")
	system := flag.String("system", "go", "of this system")
	processors := flag.Int("procs", runtime.GOMAXPROCS(0), "GOMAXPROCS for the cases that use all")
	flag.Parse()
	if *lists {
		list()
		return
	}
	for _, one := range cases() {
		if one.name == *name && one.systemName() == *system {
			round(one, *processors)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "there is no case %s of %s (see --list)\n", *name, *system)
	os.Exit(2)
}
