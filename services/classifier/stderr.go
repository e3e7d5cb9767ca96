package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// keepStderr moves the process's messages to a descriptor of their own. While
// the parser works it points descriptor 2 at a pipe, and of two that work at the
// same time the second to finish leaves it there: log lines would be lost, or end
// the process with SIGPIPE.
func keepStderr() error {
	fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("copy the descriptor of standard error: %w", err)
	}
	os.Stderr = os.NewFile(uintptr(fd), "stderr")
	if err := debug.SetCrashOutput(os.Stderr, debug.CrashOptions{}); err != nil {
		return fmt.Errorf("lead crash reports to standard error: %w", err)
	}
	return nil
}
