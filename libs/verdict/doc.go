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
// The id and the version keep their places in every version. A request is answered in
// its own version. Both sides speak the newest version and the one before: a router whose
// question is answered in an older version than it was asked in asks again in that one.
// An answer that is not understood, being of a version further away or with something
// unknown in it, fails its own request and no other. testdata/versions has what each
// version has written; whoever makes a new one adds a file and drops nothing.
//
// A kind of 255 is no verdict: the classifier was not able to judge this time, or did not
// understand the request. The flag 1 is that of a passing verdict. The detail takes the
// rest of the frame and may be missing; it is that of Detail in JSON, from version 4 on.
//
// # The client
//
// Client is a router's side. It keeps one connection to each running classifier
// and never blocks its caller. It owns all its goroutines; Close ends them and
// waits.
package verdict
