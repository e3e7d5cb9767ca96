// Package verdict is what the classifier says of a statement, and how it is
// carried: over the classifier's socket (compact frames), and on the bus (JSON).
//
// The zero Verdict is the safe one: a write that may do anything. A verdict is
// valid for every text with the same template key (package sqltoken) in the
// same database.
//
// # The socket
//
// Both directions carry frames of a four-byte big-endian length, which does not
// count itself, and that many bytes; integers are big-endian. Requests may be
// sent without waiting for answers, and answers come in any order:
//
//	request:  id u64 | version u8 | key [16] | database length u16 | database | text
//	response: id u64 | version u8 | kind u8 | effects u32 | fingerprint u64 | generation u64 | flags u8 | detail
//
// The id and the version keep their places in every version. An answer of a
// version that is not understood fails its own request and no other. A kind of 255
// is no verdict: the classifier was not able to judge this time. The flag 1 is that of
// a passing verdict. The detail takes the rest of the frame and may be missing; it is that
// of Detail in JSON.
//
// # The client
//
// Client is a router's side. It keeps one connection to each running classifier
// and never blocks its caller. It owns all its goroutines; Close ends them and
// waits.
package verdict
