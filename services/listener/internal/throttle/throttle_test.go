package throttle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// clock is a time that only moves when told to.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newTest() (*Throttle, *clock) {
	c := &clock{at: time.Unix(1000, 0)}
	t := New()
	t.now = c.now
	return t, c
}

func TestDelayGrowsAndIsBounded(t *testing.T) {
	th, c := newTest()
	got := ""
	for range 10 {
		got += fmt.Sprint(th.Delay("a").Milliseconds(), " ")
		th.Failed("a")
	}
	if want := "0 0 0 50 100 200 400 800 1000 1000 "; got != want {
		t.Errorf("delays %s, want %s", got, want)
	}
	if d := th.Delay("b"); d != 0 {
		t.Errorf("another address waits %v", d)
	}
	c.at = c.at.Add(forget)
	if d := th.Delay("a"); d != 0 {
		t.Errorf("after a minute of peace the delay is %v", d)
	}
	th.Failed("a")
	if d := th.Delay("a"); d != 0 {
		t.Errorf("the first failure after that costs %v", d)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	th, c := newTest()
	for i := range maxGuessers + 10 {
		c.at = c.at.Add(time.Millisecond)
		th.Failed(fmt.Sprint(i))
	}
	if n := len(th.state.failures); n != maxGuessers {
		t.Errorf("%d addresses", n)
	}
	if _, ok := th.state.failures["0"]; ok {
		t.Error("the oldest address is still there")
	}
	c.at = c.at.Add(forget)
	th.Failed("new")
	if n := len(th.state.failures); n != 1 {
		t.Errorf("%d addresses after a minute", n)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	th, _ := newTest()
	for range 20 {
		th.Failed("a")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := th.Wait(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := th.Wait(ctx, "b"); err != nil {
		t.Errorf("an innocent address: %v", err)
	}
}
