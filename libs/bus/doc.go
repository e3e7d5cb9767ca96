// Package bus is the news between pgpilot's services: subjects and messages on
// core NATS, and connecting to it.
//
// The subjects and payloads are a public interface (docs/bus.md): JSON with a
// version field, fields are only ever added, and an unknown or broken message is
// counted and ignored. Core NATS keeps no last value, so publishers repeat whole
// snapshots and answer snapshot requests, and a subscriber takes silence for
// "unknown", never for "unchanged".
package bus
