// Package stack runs pgpilot's services as processes of this machine: one
// implementation for development (command stack, which make up calls), for
// end-to-end tests (package stacktest) and for the benchmarks. In production a
// supervisor does this: systemd or an orchestrator, which also starts again what
// died. A stack only tells.
//
// # What a stack is
//
// One configuration and some instances of each service, numbered from 1; the
// number is the instance's id. A stack is named by a folder ([Options.Dir]). It
// holds stack.json (what another process needs to attach), stack.lock, logs/, and
// pgpilot.json when the configuration was given as a value.
//
// # Ready
//
// A service is ready when the /readyz of its own HTTP socket says so; the peer's
// pid is checked, so that an instance started by somebody else is not taken for
// one of ours. [Start] returns when all are.
//
// # Lifetime
//
// Without [Options.Detach] the processes belong to the caller: they stop with
// [Stack.Close], and should the caller be killed, the kernel kills them
// (PR_SET_PDEATHSIG). Linux ties that signal to the thread that forked, so each
// process is forked and awaited by a goroutine locked to its thread.
//
// With Detach the processes live in sessions of their own and survive the caller;
// [Open] attaches to them. A process is known by its pid, its start time and the
// boot it was started in, and signals go through a pidfd: a pid that another
// program has got meanwhile is never touched.
//
// [Stack.Close] leaves nothing: no process, socket, run directory or log, except
// for what it did not make itself.
package stack
