package busserver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// ignored counts the messages that were broken or of another version.
func ignored(t *testing.T, reg *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pgpilot_bus_messages_ignored_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestCollectHearsEveryoneOut(t *testing.T) {
	d := tempRun(t)
	start(t, d, claim(t, d, "1"), "")
	asker := service(t, d)
	reg := prometheus.NewRegistry()
	metrics, err := bus.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	collect := func(ctx context.Context) (parts map[string]int, err error) {
		parts = make(map[string]int)
		err = bus.Collect(ctx, asker, bus.SubjectVerdictSnapshot, time.Second, metrics, func(m bus.VerdictSnapshot) { parts[m.Publisher]++ })
		return parts, err
	}
	flush(t, asker)
	if _, err := collect(t.Context()); !errors.Is(err, bus.ErrSilence) {
		t.Fatalf("with nobody to answer: %v", err)
	}
	// As a router does, whose subject covers the one of the request.
	listener := service(t, d)
	if _, err := listener.Subscribe(bus.SubjectVerdict+"*", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	flush(t, listener)
	if _, err := collect(t.Context()); !errors.Is(err, bus.ErrSilence) {
		t.Fatalf("with somebody who listens and does not answer: %v", err)
	}
	for _, id := range []string{"1", "2"} {
		nc := service(t, d)
		if _, err := nc.Subscribe(bus.SubjectVerdictSnapshot, func(m *nats.Msg) {
			for range 3 {
				data, err := bus.Encode(bus.VerdictSnapshot{V: bus.Version, Publisher: id, Verdicts: []bus.Verdict{}})
				if err != nil {
					t.Error(err)
				}
				_ = m.Respond(data)
			}
			_ = m.Respond([]byte("nonsense"))
		}); err != nil {
			t.Fatal(err)
		}
		flush(t, nc)
	}
	parts, err := collect(t.Context())
	if err != nil || parts["1"] != 3 || parts["2"] != 3 {
		t.Fatalf("collected %v, %v", parts, err)
	}
	if n := ignored(t, reg); n != 2 {
		t.Errorf("%v messages were ignored, want 2", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := collect(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context had ended: %v", err)
	}
	asker.Close()
	if _, err := collect(t.Context()); err == nil || errors.Is(err, bus.ErrSilence) {
		t.Errorf("without a bus, nobody can be said to be silent: %v", err)
	}
}

// What shares a wildcard's subjects is no broken message of it.
func TestAWildcardHearsItsOwnKindOnly(t *testing.T) {
	d := tempRun(t)
	start(t, d, claim(t, d, "1"), "")
	nc := service(t, d)
	reg := prometheus.NewRegistry()
	metrics, err := bus.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 10)
	if _, err := bus.Subscribe(nc, bus.SubjectVerdict+"*", metrics, func(m bus.Verdict) { heard <- m.Key }); err != nil {
		t.Fatal(err)
	}
	flush(t, nc)
	if err := bus.Publish(nc, bus.SubjectVerdictFlush, bus.Flush{V: bus.Version, Database: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(bus.SubjectVerdictSnapshot, nc.NewInbox(), nil); err != nil {
		t.Fatal(err)
	}
	if err := bus.Publish(nc, bus.SubjectVerdict+"a", bus.Verdict{V: bus.Version, Database: "a", Key: "00"}); err != nil {
		t.Fatal(err)
	}
	if key := <-heard; key != "00" {
		t.Errorf("heard %q", key)
	}
	if n := ignored(t, reg); n != 0 {
		t.Errorf("%v messages were taken for broken", n)
	}
}

// A message of the next version is counted as that, a broken one as broken, and those
// that are understood go on, with fields of the next build too.
func TestMessagesOfOtherBuildsAreCounted(t *testing.T) {
	d := tempRun(t)
	start(t, d, claim(t, d, "1"), "")
	nc := service(t, d)
	reg := prometheus.NewRegistry()
	metrics, err := bus.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 10)
	if _, err := bus.Subscribe(nc, bus.SubjectFenceWant, metrics, func(m bus.Want) { heard <- m.Router }); err != nil {
		t.Fatal(err)
	}
	flush(t, nc)
	for _, text := range []string{
		`{"v":2,"router":"next version"}`, `{"v":1,`, `{"v":3,"router":"one more"}`,
		`{"v":1,"router":"next build","position":{"timeline":1,"lsn":"0/1","later":1},"later":{}}`,
	} {
		if err := nc.Publish(bus.SubjectFenceWant, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-heard; got != "next build" {
		t.Errorf("heard %q", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "pgpilot_bus_messages_ignored_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" {
					got[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	if got["version"] != 2 || got["broken"] != 1 {
		t.Errorf("counted %v", got)
	}
}
