package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgpilot/pgpilot/libs/obs"
)

// page is the socket on which metrics and health are relayed, if there is to be one. Clients do
// not wait for it: while another program, or a listener that ends, has the port, it is tried again.
type page struct {
	address string
	log     *slog.Logger

	mu       sync.Mutex
	listener net.Listener // guarded by mu; nil: not yet
}

// retryPage is the time between two attempts to listen on a port that is taken.
const retryPage = time.Second

// open listens, unless the port is taken. Any other error is one of the configuration.
func (p *page) open() error {
	if p.address == "" || p.get() != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.address)
	if err == nil {
		p.set(l)
		return nil
	}
	err = fmt.Errorf("listen on %s for metrics: %w", p.address, err)
	if !errors.Is(err, unix.EADDRINUSE) {
		return err
	}
	p.log.Warn("the port for metrics is taken: stop the program that has it or change observability.metrics_addr; it is tried again meanwhile", obs.KeyError, err)
	return nil
}

func (p *page) set(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
}

// get gives the socket, nil if there is none.
func (p *page) get() net.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listener
}

// serve answers on the page until ctx ends, and closes it.
func (p *page) serve(ctx context.Context, h http.Handler) error {
	if p.address == "" && p.get() == nil {
		return nil
	}
	for p.get() == nil {
		select {
		case <-time.After(retryPage):
		case <-ctx.Done():
			return nil
		}
		if l, err := net.Listen("tcp", p.address); err == nil {
			p.log.Info("the port for metrics is free now", obs.KeyAddress, p.address)
			p.set(l)
		}
	}
	return obs.Serve(ctx, p.get(), h, p.log)
}

// close is for a page that is not served.
func (p *page) close() error {
	if l := p.get(); l != nil {
		return l.Close()
	}
	return nil
}
