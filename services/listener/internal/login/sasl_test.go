package login

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/pgpilot/pgpilot/libs/scram"
	"github.com/pgpilot/pgpilot/services/listener/internal/refusal"
)

// conversation reads what the client says and counts what it hears.
type conversation struct {
	*bytes.Reader
	heard int
}

func (c *conversation) Write(b []byte) (int, error) {
	c.heard += len(b)
	return len(b), nil
}

func response(body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{'p'}, uint32(4+len(body))), body...)
}

func FuzzReceiveFirst(f *testing.F) {
	const message = "n,,n=,r=abc"
	f.Add(response(scram.Mechanism + "\x00\x00\x00\x00\x0b" + message))
	f.Add(response(scram.MechanismPlus + "\x00\x00\x00\x00\x0b" + message))
	f.Add(append(response(scram.Mechanism+"\x00\xff\xff\xff\xff"), response(message)...))
	f.Add(response("SCRAM-SHA-1\x00\x00\x00\x00\x00"))
	f.Add(response(""))
	f.Add([]byte("p\x7f\xff\xff\xff"))
	f.Add([]byte("Q\x00\x00\x00\x05\x00"))
	offer := []string{scram.MechanismPlus, scram.Mechanism}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &conversation{Reader: bytes.NewReader(b)}
		first, err := receiveFirst(c, offer)
		read := len(b) - c.Len()
		if read > 2*(maxMessage+1) {
			t.Fatalf("%d bytes were read", read)
		}
		var r *refusal.Refusal
		switch {
		case err == nil:
			if !slices.Contains(offer, first.mechanism) || len(first.message) > maxMessage || !bytes.Contains(b, first.message) {
				t.Fatalf("got %+v", first)
			}
		case errors.As(err, &r):
			if r.Code != refusal.ProtocolViolation {
				t.Fatalf("refused with %s", r.Code)
			}
		case !errors.Is(err, errMessageLength) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Fatalf("got %v", err)
		}
	})
}
