// Package systemd is the units that run pgpilot on a host: a target, a socket unit for
// the clients, a service for each kind of process (routers and classifiers are
// templates), and one drop-in with what all of them have in common.
//
// Its tests ask systemd itself whether the units are right and well confined.
package systemd
