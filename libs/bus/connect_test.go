package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

func run(t *testing.T) *rundir.Dir {
	t.Helper()
	p, err := os.MkdirTemp("", "bus") // short: socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p) })
	d, err := rundir.Open(filepath.Join(p, "run"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryServiceOfADirectoryHasTheSameKey(t *testing.T) {
	d := run(t)
	a, err := Credential(d, "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Credential(d, "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := Credential(run(t), "")
	if err != nil {
		t.Fatal(err)
	}
	sa, _ := a.Sign([]byte("nonce"))
	sb, _ := b.Sign([]byte("nonce"))
	if a.Public != b.Public || !bytes.Equal(sa, sb) {
		t.Error("two services of one directory have different keys")
	}
	if a.Public == other.Public {
		t.Error("two directories have the same key")
	}
	if st, err := os.Stat(d.Join(secretName)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode of the secret: %v, %v", st.Mode(), err)
	}
}

func TestServicesOfTwoDirectoriesShareASecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "0123456789abcdef0123456789abcdef"
	d := run(t)
	write(secret + "\n")
	a, err := Credential(d, file)
	if err != nil {
		t.Fatal(err)
	}
	write(secret + "\r\nwhatever")
	b, err := Credential(run(t), file)
	if err != nil {
		t.Fatal(err)
	}
	write(secret[1:] + "0")
	other, err := Credential(d, file)
	if err != nil {
		t.Fatal(err)
	}
	if a.Public != b.Public || a.Public == other.Public {
		t.Errorf("keys: %s and %s of one secret, %s of another", a.Public, b.Public, other.Public)
	}
	if _, err := os.Stat(d.Join(secretName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a secret was made in the run directory all the same: %v", err)
	}

	write(secret[1:] + "\n" + secret)
	if _, err := Credential(d, file); err == nil || !strings.Contains(err.Error(), "has 31 bytes and needs 32") {
		t.Errorf("a short secret: %v", err)
	}
	if _, err := Credential(d, "/nonexistent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestWithoutABusNothingBlocksAndNothingIsQueued(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := Connect(t.Context(), run(t), Options{Name: "x", Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := Subscribe(nc, SubjectLag+"*", metrics, func(Lag) {}); err != nil {
		t.Errorf("subscribing before there is a bus: %v", err)
	}
	if err := Publish(nc, SubjectLag+"r1", someLag); !Offline(err) {
		t.Errorf("publishing without a bus: %v", err)
	}
	if err := Publish(nc, SubjectLag+"r1", Lag{}); err == nil || Offline(err) {
		t.Errorf("publishing nonsense: %v", err)
	}
}

func TestTheConnectionEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	nc, err := Connect(ctx, run(t), Options{Name: "x", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	closed := nc.StatusChanged(nats.CLOSED)
	cancel()
	select {
	case <-closed:
	case <-time.After(60 * time.Second):
		t.Fatal("still open")
	}
	if err := nc.Publish("x", nil); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("publishing afterwards: %v", err)
	}
}

func TestReconnectDelayStaysWithinItsBounds(t *testing.T) {
	for attempts := range 100 {
		if d := reconnectDelay(attempts); d < firstDelay || d >= 2*lastDelay {
			t.Fatalf("attempt %d waits %v", attempts, d)
		}
	}
	if d := reconnectDelay(1); d >= 2*firstDelay {
		t.Errorf("the first attempt waits %v", d)
	}
}
