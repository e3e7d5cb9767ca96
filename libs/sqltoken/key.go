package sqltoken

import (
	"encoding/binary"

	"github.com/dchest/siphash"
)

// Key identifies everything a verdict may depend on: the template of a statement (or its full text)
// and the Context it was scanned in. It is comparable and spread evenly, so it serves as a map key.
type Key [16]byte

// Secret is the random key of the hash. All processes that share verdicts share it; who does not
// know it cannot make two statements collide.
type Secret [16]byte

// Context stands for what else decides how a text parses and what it means: the caller makes one
// for each combination it meets.
type Context [16]byte

// NewContext hashes parts into a Context: the database, and each setting that changes how strings
// are read or names are found, and parameter types given at Parse if verdicts look at them. Their
// order and their boundaries matter. The server's release is not among them, Scan adds it.
func NewContext(secret Secret, parts ...string) Context {
	buf := []byte{byte(modeContext)}
	for _, p := range parts {
		buf = binary.AppendUvarint(buf, uint64(len(p)))
		buf = append(buf, p...)
	}
	return Context(newHasher(secret).sum(buf))
}

// mode is the first byte of everything hashed: it keeps the uses of one secret apart.
type mode byte

const (
	modeContext    mode = iota + 1
	modeTemplate        // a token stream
	modeFirstChunk      // the first part of a long token stream
	modeNextChunk       // a further part, behind the digest of the one before
	modeLastChunk       // the last part, likewise
	modeFullText        // a text
	modeLongText        // the digest of a long text
	modeDigest          // a long text
)

// hasher is SipHash-2-4 with 128 bits of result under one secret.
type hasher struct{ k0, k1 uint64 }

func newHasher(secret Secret) hasher {
	return hasher{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
}

func (h hasher) sum(p []byte) (out [16]byte) {
	a, b := siphash.Hash128(h.k0, h.k1, p)
	binary.LittleEndian.PutUint64(out[:8], a)
	binary.LittleEndian.PutUint64(out[8:], b)
	return out
}

// digest hashes a long text where it lies. A second secret takes the place of the mode byte, which
// would need a copy.
func (h hasher) digest(p []byte) [16]byte {
	return hasher{h.k0 ^ uint64(modeDigest), h.k1}.sum(p)
}
