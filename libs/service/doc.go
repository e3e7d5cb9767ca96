// Package service is the frame of every pgpilot service's process: flags, the
// configuration, the run directory, the logger, the metrics and health socket,
// signals and reloads. A service's main is one line:
//
//	func main() { os.Exit(service.Main(service.Service{Name: rundir.Router, Check: check, Serve: serve})) }
//
// Order of start: flags, configuration, run directory, claim of the instance's
// names, HTTP socket, configuration watch, then the service's own serve function.
// The end is the same in reverse: serve returns, the watch and the HTTP server
// are stopped and waited for, the claim is given up and its sockets are removed.
// The HTTP socket thus answers for as long as the service does anything; /readyz
// says 503 until serve has called Env.Health.Ready and again once it is told to
// stop.
//
// With -http the same pages are on a TCP address too: where no listener relays them,
// and for whoever cannot reach the socket.
//
// With -check a process asks running instances whether they are ready or alive
// instead of becoming one: the health check of containers, which hold nothing but
// the service's program.
//
// Signals: SIGTERM and SIGINT end the context that serve got, a second one ends
// the process at once; SIGHUP reads the configuration again, as soon as there is something
// to reload. A configuration is passed on only if the service's Check can read all that it
// names: the service takes it as a whole or not at all.
package service
