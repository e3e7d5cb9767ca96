package usage

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A child that has ended still counts, through its parent.
func TestTreeCountsChildren(t *testing.T) {
	before, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "echo; read line; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
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
	during, err := OfTrees(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if during.Processes <= before.Processes {
		t.Errorf("%d processes with a child, %d without", during.Processes, before.Processes)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
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
