package parse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// outcome of one text in a worker.
type outcome byte

const (
	outcomeParsed outcome = iota + 1
	// outcomeRefused: the body is the parser's complaint.
	outcomeRefused
	// outcomeTooLarge: the tree is larger than a worker may send.
	outcomeTooLarge
	// outcomeMemory: the parser reached the memory limit and said so.
	outcomeMemory
)

const (
	// requestHead is the fixed part of a request.
	requestHead = 1
	// answerHead is the fixed part of an answer.
	answerHead = 1 + 8 + 4
	// maxBody bounds Limits.Tree.
	maxBody = 64 << 20
	// maxNormalized bounds the normalized text of an answer.
	maxNormalized = 2 * ShortText
	// maxRequest bounds a request. classify.max_text is far below.
	maxRequest = 1 << 30
	// keepBuffer is the largest buffer that outlives its text.
	keepBuffer = 256 << 10
)

var errFrame = errors.New("malformed frame of a parser process")

// answer is what a worker says of a text.
type answer struct {
	outcome     outcome
	fingerprint uint64
	normalized  string
	// body is valid until the next frame is read.
	body []byte
}

func appendRequest(b []byte, text string, normalize bool) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(requestHead+len(text)))
	if normalize {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return append(b, text...)
}

func appendAnswer(b []byte, a *answer) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(answerHead+len(a.normalized)+len(a.body)))
	b = append(b, byte(a.outcome))
	b = binary.BigEndian.AppendUint64(b, a.fingerprint)
	b = binary.BigEndian.AppendUint32(b, uint32(len(a.normalized)))
	b = append(b, a.normalized...)
	return append(b, a.body...)
}

// frames reads frames. The bytes it gives are valid until the next call.
type frames struct {
	r   io.Reader
	buf []byte
}

func (f *frames) next(least, most int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) < uint64(least) || uint64(n) > uint64(most) {
		return nil, errFrame
	}
	if cap(f.buf) > keepBuffer || cap(f.buf) < int(n) {
		f.buf = make([]byte, max(n, 4<<10))
	}
	b := f.buf[:n]
	if _, err := io.ReadFull(f.r, b); err != nil {
		return nil, fmt.Errorf("read a frame: %w", err)
	}
	return b, nil
}

func (f *frames) request() (text string, normalize bool, err error) {
	b, err := f.next(requestHead, maxRequest)
	if err != nil {
		return "", false, err
	}
	return string(b[requestHead:]), b[0] == 1, nil
}

func (f *frames) answer() (answer, error) {
	b, err := f.next(answerHead, answerHead+maxNormalized+maxBody)
	if err != nil {
		return answer{}, err
	}
	a := answer{outcome: outcome(b[0]), fingerprint: binary.BigEndian.Uint64(b[1:])}
	n := binary.BigEndian.Uint32(b[9:])
	b = b[answerHead:]
	if a.outcome < outcomeParsed || a.outcome > outcomeMemory || uint64(n) > uint64(len(b)) {
		return answer{}, errFrame
	}
	a.normalized, a.body = string(b[:n]), b[n:]
	return a, nil
}
