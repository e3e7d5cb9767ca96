// Package soak has sessions of several drivers do everything that a session can do,
// by chance and for a long time, through pgpilot with small pools, while server
// processes are terminated, statements are canceled and clients vanish.
//
// TestSoak judges every answer: each session knows what it has written and set, and no more
// connections may be lost than were ended on purpose. In the end nothing may be left: no
// session, no lent connection, no descriptor or goroutine more than before, nothing of a session in
// any pooled connection, and no pool with more connections than it may have.
//
// It also watches the router's memory, and what it consists of: what is resident, what the
// program has reserved (in use by the heap, free and not given back, stacks, the runtime's
// own), how much of the heap was alive at the last collection. Three of these are judged: what
// is held (alive, stacks, the runtime's own), which a leak would raise, what is reserved,
// which fragments would raise, and what is resident, which lies in between, together with the
// pages of the program that have been needed so far.
//
// What counts is the growth over the last half of each pool mode, since caches, pools of
// buffers and the heap's spans fill up at first. The half is cut into thirty pieces, each is
// taken by its median, and the slope is that of Theil and Sen: the median of the slopes
// between any two pieces, with the interval that it is in with a probability of 95 %. A mode of
// twenty minutes fails if the whole interval lies above 1 % of the level in that half, and
// above what the quantity is known to go up and down by itself (limits in memory_test.go): with
// stacks that are kept for goroutines to come, or with the time that the machine leaves to the
// collector.
//
// make soak runs it for as long as wanted; make test for half a minute. With -profiles it
// keeps two heap profiles of each mode, for what has grown:
//
//	go test ./e2e/soak -run TestSoak -v -timeout 0 -for 40m -profiles /tmp/heaps
//	go tool pprof -diff_base /tmp/heaps/transaction-middle.pb.gz /tmp/heaps/transaction-end.pb.gz
package soak
