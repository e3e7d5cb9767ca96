// Package tlsrelay carries bytes between a TLS connection and a socket pair, so
// that an event loop, in this process or another, can serve a peer that speaks TLS
// through a bare descriptor. TLS state cannot travel with a descriptor: it stays
// with the relay, and whoever holds the far end may change.
//
// It promises that the far end behaves like the peer's own TCP socket:
//
//   - Bytes flow both ways at once, each way no faster than the slower side takes
//     them, through one buffer of 16 KB. A silent connection holds no such buffer.
//   - The peer's end of sending (close_notify, or a bare FIN) becomes an end of file at
//     the far end, which may go on sending. A connection that fails becomes a hang-up.
//   - When the last copy of the far end is closed, or its owner dies, everything it had
//     sent is delivered, then close_notify, then the connection is closed, without a
//     reset that could destroy what is still under way. A peer that does not
//     read it within a few seconds loses it.
//
// Ownership: a Relay owns the TLS connection and the near end of the pair from New
// on and closes both when Run returns. The far end is the caller's.
package tlsrelay
