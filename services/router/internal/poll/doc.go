// Package poll is the router's contact with the kernel: an epoll set, raw
// non-blocking socket reads and writes, and an inbox through which other
// goroutines reach the loop.
//
// A descriptor in a Poller is owned by the loop alone: no os.File and no net.Conn
// exists for it. Every call that may block goes through syscall.Syscall, so that
// the Go runtime knows about it and a garbage collection need not wait; calls
// that cannot block are made raw, without telling it.
package poll
