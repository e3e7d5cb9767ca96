package engine

// calls counts what the loop asks of the kernel for its sockets. A statement should take
// one read and one write on each side; how many waits there are to a statement says how
// many the loop finds ready at a time.
type calls struct{ reads, writes, waits uint64 }
