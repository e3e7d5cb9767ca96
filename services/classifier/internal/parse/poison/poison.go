// Package poison makes a parser process of a test fail in the ways a defect of
// the parser would. No program but test binaries contains it.
package poison

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a text can do to its process. The first three are also causes of
// parse.Poison.
const (
	Crash  = "crash"
	Hang   = "hang"
	Memory = "memory"
	// Sleep hangs without computing.
	Sleep = "sleep"
	// Killed is as if somebody outside killed the process.
	Killed = "killed"
)

const mark = `"poison: `

// Name is a name that makes a text do it, to be put behind an expression or a table.
// Comments do not reach the parser.
func Name(what string) string { return " " + mark + what + `"` }

// Take does what a name in the text says.
func Take(text string) {
	_, what, ok := strings.Cut(text, mark)
	if !ok {
		return
	}
	what, _, _ = strings.Cut(what, `"`)
	switch what {
	case Crash:
		die(syscall.SIGSEGV)
	case Killed:
		die(syscall.SIGKILL)
	case Sleep:
		time.Sleep(time.Hour)
	case Memory:
		// Mapped and not touched: what counts is the limit, and no test shall eat the
		// machine's memory where there is none.
		for {
			if _, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
				fmt.Fprintln(os.Stderr, "out of memory:", err)
				os.Exit(1)
			}
		}
	case Hang:
		for n := uint(0); ; n++ {
			if n == 1<<63 {
				return // never: the compiler shall not know
			}
		}
	}
}

func die(sig syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), sig)
	select {}
}
