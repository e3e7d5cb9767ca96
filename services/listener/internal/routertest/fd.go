package routertest

import "syscall"

// rawFD lends a descriptor to handoff.Dup.
type rawFD int

// SyscallConn implements syscall.Conn.
func (fd rawFD) SyscallConn() (syscall.RawConn, error) { return fd, nil }

// Control implements syscall.RawConn.
func (fd rawFD) Control(f func(uintptr)) error { f(uintptr(fd)); return nil }

// Read implements syscall.RawConn; nothing here reads.
func (fd rawFD) Read(func(uintptr) bool) error { return syscall.ENOTSUP }

// Write implements syscall.RawConn; nothing here writes.
func (fd rawFD) Write(func(uintptr) bool) error { return syscall.ENOTSUP }
