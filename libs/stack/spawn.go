package stack

import (
	"os/exec"
	"runtime"
	"syscall"
)

// child is a process this one started. Its goroutine ends with the process.
type child struct {
	id     identity
	exited chan struct{}
	err    error // how it ended, to be read after exited
}

// spawn starts cmd. A tied child is killed when this process dies.
func spawn(cmd *exec.Cmd, tied bool) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if tied {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error, 1)
	c := &child{exited: make(chan struct{})}
	go func() {
		// Linux delivers the death signal when the forking thread ends: keep it until
		// there is nobody left to receive the signal.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.exited)
		err := cmd.Start()
		if err == nil {
			// Nobody else has this pid before Wait has returned.
			c.id, _ = identify(cmd.Process.Pid)
			c.id.PID = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}
