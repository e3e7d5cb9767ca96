package usage

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// waiting starts a shell that waits until end, runs the script then, and has been waited for when
// end returns.
func waiting(t *testing.T, script string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command("sh", "-c", "echo; read line; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd, func() {
		_ = in.Close()
		_ = cmd.Wait() // read fails at the end of its input, so the state may be that
	}
}

// A child that has ended still counts, through its parent.
func TestTreeCountsChildren(t *testing.T) {
	before, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd, end := waiting(t, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	during, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if during.Processes <= before.Processes {
		t.Errorf("%d processes with a child, %d without", during.Processes, before.Processes)
	}
	end()
	after, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.CPU < before.CPU+cmd.ProcessState.UserTime()-2*tick {
		t.Errorf("the tree used %v, its ended child alone %v", after.CPU-before.CPU, cmd.ProcessState.UserTime())
	}
	if after.Resident <= 0 {
		t.Errorf("resident memory is %d", after.Resident)
	}
}

// Each of many processes may use less than a tick.
func TestTreeCountsLessThanATick(t *testing.T) {
	const many = 40
	before, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range many {
		cmd, end := waiting(t, "")
		t.Cleanup(end)
		s, err := OfProcess(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if s.CPU <= 0 || s.CPU%tick == 0 {
			t.Errorf("a process that has just been started has used %v", s.CPU)
		}
	}
	after, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Processes - before.Processes; n != many {
		t.Errorf("there are %d processes more", n)
	}
}

// Nothing is lost of children that end while they are counted: what a tree has used never
// becomes less.
func TestTreeKeepsWhatEndingChildrenUsed(t *testing.T) {
	cmd := exec.Command("sh", "-c", `while :; do
		for n in 1 2 3 4 5 6 7 8; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done) & done
		wait
	done`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its children end by themselves
		_ = cmd.Wait()
	})
	var last Sample
	for rounds := 0; rounds < 3000; rounds++ {
		s, err := OfTrees(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if s.CPU < last.CPU-2*tick { // what has ended is counted in ticks
			t.Fatalf("after %d looks: the tree has used %v, and before that %v", rounds, s.CPU, last.CPU)
		}
		last = s
	}
	if last.CPU == 0 {
		t.Error("it has used nothing")
	}
}

func TestOfTreesNamesTheMissing(t *testing.T) {
	if _, err := OfTrees(1 << 30); err == nil {
		t.Error("a pid that cannot exist has usage")
	}
}

func TestMachine(t *testing.T) {
	busy, err := Busy()
	if err != nil || busy <= time.Duration(0) {
		t.Errorf("busy %v, %v", busy, err)
	}
	if load, err := Load(); err != nil || load < 0 {
		t.Errorf("load %v, %v", load, err)
	}
}
