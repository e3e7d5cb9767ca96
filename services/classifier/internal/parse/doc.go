// Package parse runs PostgreSQL's parser (pg_query, C code) in processes of its
// own, so that a text that crashes it, hangs it or eats memory costs one process
// and its own verdict.
//
// A Pool starts workers: the classifier's own program with Subcommand as its
// argument, which calls Serve. A worker handles one text at a time and knows
// nothing but texts: no environment, no files, no sockets. What crosses its pipes
// is the parse tree, not a verdict, so that judging can use what the classifier
// knows of the database:
//
//	request: length u32 | normalize u8 | text
//	answer:  length u32 | outcome u8 | fingerprint u64 | length u32 | normalized text | body
//
// in big-endian order; a length does not count itself. The body is the tree in
// protobuf, or the parser's complaint.
//
// Promises: Parse returns within Limits.Queue + Limits.Wall (and the moment it
// takes to kill). No two texts share a worker at a time, and a worker is never
// used again after an answer that was late, missing or malformed. One worker is
// always kept from long texts. Workers end when the Pool is closed, and by
// themselves when its process dies, even in the middle of a text.
package parse
