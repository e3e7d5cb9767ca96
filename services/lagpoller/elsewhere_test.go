package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/lab/labtest"
)

// Services of another host reach the bus over TCP and may publish there, if they have
// its secret.
func TestServicesElsewhere(t *testing.T) {
	c := labtest.Start(t, 1)
	secret := filepath.Join(t.TempDir(), "bus.secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := configure(c)
	cfg.Bus.Listen, cfg.Bus.SecretFile = port.Addr().String(), secret
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, runDir(t), cfg)

	log := slog.New(slog.DiscardHandler)
	elsewhere, url := runDir(t), "nats://"+cfg.Bus.Listen
	nc, err := bus.Connect(t.Context(), elsewhere, bus.Options{Name: "elsewhere", Log: log, Bus: config.Bus{URL: url, SecretFile: secret}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	snapshot, err := bus.Request[bus.LagSnapshot](t.Context(), nc, bus.SubjectLagSnapshot)
	if err != nil || len(snapshot.Backends) != len(c.Members()) {
		t.Fatalf("snapshot: %+v, %v", snapshot, err)
	}
	heard := make(chan bus.Flush, 1)
	if _, err := bus.Subscribe(nc, bus.SubjectVerdictFlush, nil, func(f bus.Flush) { heard <- f }); err != nil {
		t.Fatal(err)
	}
	if err := bus.Publish(nc, bus.SubjectVerdictFlush, bus.Flush{V: bus.Version, Database: "d"}); err != nil {
		t.Fatal(err)
	}
	<-heard // only services may publish

	// With another secret nobody is let in, not even as an operator.
	key, err := bus.Credential(elsewhere, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = nats.Connect(url, nats.Nkey(key.Public, key.Sign))
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("another secret: %v", err)
	}
}
