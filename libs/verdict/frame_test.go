package verdict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

func frameOf(t testing.TB, id uint64, r Request) []byte {
	t.Helper()
	b, err := AppendRequest(nil, id, &r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRequestsAreReadBack(t *testing.T) {
	want := []Request{
		{Key: sqltoken.Key{1, 15: 9}, Database: "app", Text: "SELECT 1"},
		{},
		{Database: "größer", Text: strings.Repeat("x", 100_000)},
		{Text: "SELECT 2"},
	}
	var b []byte
	for i, r := range want {
		b = append(b, frameOf(t, uint64(i)<<40, r)...)
	}
	// One byte at a time: a stream has no frames.
	r := NewRequestReader(iotest.OneByteReader(bytes.NewReader(b)), 100_000)
	for i, w := range want {
		id, got, err := r.Next()
		if err != nil || id != uint64(i)<<40 || got != w {
			t.Fatalf("request %d: got id %d, %.40v, %v", i, id, got, err)
		}
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Fatalf("at the end: %v, want EOF", err)
	}
}

func TestResponsesAreReadBack(t *testing.T) {
	want := []Verdict{{Kind: Read, Fingerprint: 1 << 63}, {}, {Effects: known, Fingerprint: 3, Generation: 1 << 62}, {Passing: true, Effects: Unproven},
		{Effects: Session, Detail: someDetail}, {Detail: &Detail{Parts: []Part{}}}}
	var b []byte
	for i, v := range want {
		b = AppendResponse(b, uint64(i), v)
	}
	r := NewResponseReader(iotest.OneByteReader(bytes.NewReader(b)))
	for i, w := range want {
		id, got, err := r.Next()
		if err != nil || id != uint64(i) || !reflect.DeepEqual(got, w) {
			t.Fatalf("response %d: got id %d, %+v, %v", i, id, got, err)
		}
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Fatalf("at the end: %v, want EOF", err)
	}
}

func TestNoVerdictIsNotOne(t *testing.T) {
	r := NewResponseReader(bytes.NewReader(AppendResponse(AppendNoVerdict(nil, 7), 8, Verdict{Kind: Read})))
	if id, v, err := r.Next(); !errors.Is(err, ErrNoVerdict) || id != 7 || v != (Verdict{}) {
		t.Fatalf("got %d, %+v, %v; want 7 and ErrNoVerdict", id, v, err)
	}
	if id, v, err := r.Next(); err != nil || id != 8 || v.Kind != Read {
		t.Fatalf("after it: %d, %v, %v", id, v, err)
	}
}

func TestOverlongTextIsSkippedAndAnswerable(t *testing.T) {
	b := frameOf(t, 5, Request{Database: "d", Text: strings.Repeat("x", 11)})
	b = append(b, frameOf(t, 6, Request{Database: "d", Text: strings.Repeat("y", 10)})...)
	r := NewRequestReader(bytes.NewReader(b), 10)
	if id, _, err := r.Next(); !errors.Is(err, ErrTooLong) || id != 5 {
		t.Fatalf("got %d, %v; want 5 and ErrTooLong", id, err)
	}
	if id, req, err := r.Next(); err != nil || id != 6 || len(req.Text) != 10 {
		t.Fatalf("after it: %d, %v, %v", id, req, err)
	}
}

func TestAnotherVersionFailsOneRequest(t *testing.T) {
	b := frameOf(t, 5, Request{Text: "SELECT 1"})
	b[4+8]++
	b = append(b, frameOf(t, 6, Request{})...)
	r := NewRequestReader(bytes.NewReader(b), 10)
	if id, _, err := r.Next(); !errors.Is(err, ErrVersion) || id != 5 {
		t.Fatalf("got %d, %v; want 5 and ErrVersion", id, err)
	}
	if id, _, err := r.Next(); err != nil || id != 6 {
		t.Fatalf("after it: %d, %v", id, err)
	}

	// A later version may be longer or shorter.
	for _, size := range []int{9, 200} {
		b := binary.BigEndian.AppendUint32(nil, uint32(size))
		b = binary.BigEndian.AppendUint64(b, 7)
		b = append(b, byte(Newest)+1)
		b = append(b, make([]byte, size-9)...)
		b = AppendResponse(b, 8, Verdict{Kind: Read})
		r := NewResponseReader(bytes.NewReader(b))
		if id, _, err := r.Next(); !errors.Is(err, ErrVersion) || id != 7 {
			t.Fatalf("got %d, %v; want 7 and ErrVersion", id, err)
		}
		if id, v, err := r.Next(); err != nil || id != 8 || v.Kind != Read {
			t.Fatalf("after it: %d, %v, %v", id, v, err)
		}
	}
}

func TestHostileFramesAreRefused(t *testing.T) {
	request := frameOf(t, 1, Request{Database: "d", Text: "SELECT 1"})
	nameTooLong := bytes.Clone(request)
	binary.BigEndian.PutUint16(nameTooLong[4+25:], 500)
	for name, b := range map[string][]byte{
		"no room for the head":     {0, 0, 0, requestHead - 1, 0},
		"more than a gigabyte":     {0xff, 0xff, 0xff, 0xff},
		"name longer than message": nameTooLong,
		"cut off in the length":    request[:2],
		"cut off in the head":      request[:20],
		"cut off in the text":      request[:len(request)-1],
	} {
		_, _, err := NewRequestReader(bytes.NewReader(b), 100).Next()
		if err == nil || err == io.EOF || errors.Is(err, ErrTooLong) || errors.Is(err, ErrVersion) {
			t.Errorf("request, %s: got %v, want the end of the connection", name, err)
		}
	}
	response := AppendResponse(nil, 1, Verdict{})
	alter := func(at int, to byte) []byte {
		b := bytes.Clone(response)
		b[at] = to
		return b
	}
	before := append(alter(3, responseSize+2), "{}"...)
	before[4+8] = byte(firstDetail) - 1
	for name, b := range map[string][]byte{
		"empty":                         {0, 0, 0, 0},
		"too long":                      {0, 2, 0, 0},
		"no detail":                     append(alter(3, responseSize+1), '{'),
		"a detail before there was one": before,
		"one byte less":                 alter(3, responseSize-1)[:4+responseSize-1],
		"cut off":                       response[:len(response)-1],
	} {
		_, _, err := NewResponseReader(bytes.NewReader(b)).Next()
		if err == nil || err == io.EOF || errors.Is(err, ErrVersion) {
			t.Errorf("response, %s: got %v, want the end of the connection", name, err)
		}
	}
	// What a newer build may say fails its own request.
	for name, b := range map[string][]byte{
		"unknown kind":   alter(4+9, 2),
		"unknown effect": alter(4+10, 0x80),
		"unknown flag":   alter(4+30, 2),
	} {
		r := NewResponseReader(bytes.NewReader(AppendResponse(b, 2, Verdict{Kind: Read})))
		if id, v, err := r.Next(); !errors.Is(err, ErrVersion) || id != 1 || v != (Verdict{}) {
			t.Errorf("response, %s: got %d, %+v, %v; want 1 and ErrVersion", name, id, v, err)
		}
		if id, v, err := r.Next(); err != nil || id != 2 || v.Kind != Read {
			t.Errorf("response after %s: got %d, %+v, %v", name, id, v, err)
		}
	}
	if _, err := AppendRequest(nil, 1, &Request{Database: strings.Repeat("d", maxDatabase+1)}); err == nil {
		t.Error("a database name that no reader accepts was written")
	}
}

func TestALongTextLeavesNoLongBuffer(t *testing.T) {
	b := frameOf(t, 1, Request{Text: strings.Repeat("x", 4*keepBuffer)})
	r := NewRequestReader(bytes.NewReader(b), 8*keepBuffer)
	if _, _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if cap(r.buf) > keepBuffer {
		t.Fatalf("the reader keeps %d bytes", cap(r.buf))
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(frameOf(f, 1, Request{Key: sqltoken.Key{3}, Database: "d", Text: "SELECT 1"}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		const maxText = 64
		r := NewRequestReader(bytes.NewReader(b), maxText)
		for {
			id, req, err := r.Next()
			if errors.Is(err, ErrTooLong) || errors.Is(err, ErrVersion) {
				continue
			}
			if err != nil {
				return
			}
			if len(req.Text) > maxText || len(req.Database) > maxDatabase {
				t.Fatalf("accepted %d bytes of text, %d of name", len(req.Text), len(req.Database))
			}
			frame, err := r.Version().appendRequest(nil, id, &req)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(b, frame) {
				t.Fatalf("%x became %x", b, frame)
			}
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add(AppendResponse(nil, 1, Verdict{Kind: Read, Effects: Session, Fingerprint: 2}))
	f.Add(AppendNoVerdict(nil, 1))
	f.Add(AppendResponse(nil, 1, Verdict{Detail: someDetail}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewResponseReader(bytes.NewReader(b))
		for {
			id, v, err := r.Next()
			if errors.Is(err, ErrVersion) || errors.Is(err, ErrNoVerdict) {
				continue
			}
			if err != nil {
				return
			}
			frame := r.Version().AppendResponse(nil, id, v)
			if v.Detail == nil && !bytes.Contains(b, frame[4:4+responseSize]) {
				t.Fatalf("%x became %x", b, frame)
			}
			_, again, err := NewResponseReader(bytes.NewReader(frame)).Next()
			if len(v.Detail.encode()) == 0 {
				v.Detail = nil
			}
			if err != nil || !reflect.DeepEqual(again, v) {
				t.Fatalf("%+v became %+v, %v", v, again, err)
			}
		}
	})
}
