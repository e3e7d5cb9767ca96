package poll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Status is the outcome of a raw read or write.
type Status uint8

const (
	// OK: some bytes were moved.
	OK Status = iota
	// Again: nothing can be moved now; wait for readiness.
	Again
	// Closed: the peer has closed its side, or the connection broke.
	Closed
)

// Recv reads what is there, without blocking.
func Recv(fd int, b []byte) (int, Status) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return 0, Again
		case errno != 0 || n == 0:
			return 0, Closed
		default:
			return int(n), OK
		}
	}
}

// Readable reports whether there is something to read.
func Readable(fd int) bool {
	var first [1]byte
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&first[0])), 1, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
		if errno != unix.EINTR {
			return errno == 0 && n > 0
		}
	}
}

// Silent reports whether the peer has neither sent anything that is unread nor closed its
// side.
func Silent(fd int) bool {
	var first [1]byte
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&first[0])), 1, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
		if errno != unix.EINTR {
			return errno == unix.EAGAIN
		}
	}
}

// Send writes what fits, without blocking and without a SIGPIPE.
func Send(fd int, b []byte) (int, Status) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return 0, Again
		case errno != 0:
			return 0, Closed
		default:
			return int(n), OK
		}
	}
}

// Finish says that nothing more will be sent, for every process that holds a copy: the
// peer reads an end of file.
func Finish(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }

// Hangup ends a connection for every process that holds a copy of it, then
// closes this one. A close alone would leave the peer waiting while a copy lives.
func Hangup(fd int) {
	_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	_ = unix.Close(fd)
}
