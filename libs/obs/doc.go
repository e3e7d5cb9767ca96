// Package obs is how a service shows itself: structured logs with constant keys,
// a Prometheus registry, and /healthz, /readyz, /metrics and /debug/pprof on one
// handler.
//
// Metrics carry no service or instance label: the listener adds both when it
// relays every service's metrics on observability.metrics_addr, so a metric has
// one name wherever it is read. Loggers, registries and health states are made
// by package service, passed down, and never global.
package obs
