package verdict

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Version is that of the frames. A request is answered in its own version.
type Version uint8

const (
	// Newest is the version that this build writes.
	Newest Version = 4
	// Oldest is the previous one, which it still understands and writes, so that
	// routers and classifiers can be replaced one by one.
	Oldest Version = 3
)

// firstDetail is the version from which a response may have a detail. It is the only
// difference between the versions here.
const firstDetail Version = 4

func (f Version) understood() bool { return Oldest <= f && f <= Newest }

const (
	// maxDatabase bounds the database name. PostgreSQL cuts names at 63 bytes; what
	// a client sends may be longer.
	maxDatabase = 1024
	// requestHead is the fixed part of a request: id, version, key, length of the name.
	requestHead = 8 + 1 + 16 + 2
	// responseSize is the fixed part of a response: id, version, kind,
	// effects, fingerprint, generation, flags. A detail follows.
	responseSize = 8 + 1 + 1 + 4 + 8 + 8 + 1
	// flagPassing is that of Verdict.Passing.
	flagPassing = 1
	// noVerdict stands for the kind in a response without a verdict.
	noVerdict = 0xff
	// maxResponse bounds responses of versions to come.
	maxResponse = 1 << 16
	// maxRequest bounds a request whose text is skipped for its length. PostgreSQL
	// takes no message above 1 GB.
	maxRequest = 1 << 30
)

var (
	// ErrTooLong says that a text is longer than classify.max_text. It is a write.
	ErrTooLong = errors.New("statement text is longer than classify.max_text")
	// ErrVersion says that the other side is more than one version away, or says
	// something that is newer than this build.
	ErrVersion = errors.New("classifier and router are of different versions: restart the older one")
	// ErrNoVerdict says that the classifier could not judge the text this time, for
	// no fault of the text. It is a write now and may be asked about again.
	ErrNoVerdict = errors.New("the classifier could not judge the statement this time")
	// errFrame is a frame that no version could have sent; the connection is useless.
	errFrame = errors.New("malformed frame on the classifier's socket")
)

// Request asks for the verdict of one statement string.
type Request struct {
	// Key is the text's template key: equal keys have equal verdicts
	// within one database.
	Key sqltoken.Key
	// Database is the name of the database that the client is connected to.
	Database string
	// Text is the statement string as the client sent it, without the final zero.
	Text string
}

// AppendRequest appends the frame of a request in the newest version.
func AppendRequest(b []byte, id uint64, r *Request) ([]byte, error) {
	return Newest.appendRequest(b, id, r)
}

func (v Version) appendRequest(b []byte, id uint64, r *Request) ([]byte, error) {
	if len(r.Database) > maxDatabase {
		return b, fmt.Errorf("database name of %d bytes is longer than %d", len(r.Database), maxDatabase)
	}
	size := requestHead + len(r.Database) + len(r.Text)
	if size > maxRequest {
		return b, ErrTooLong
	}
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, byte(v))
	b = append(b, r.Key[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Database)))
	b = append(b, r.Database...)
	return append(b, r.Text...), nil
}

// RequestReader reads requests from a connection. It is not safe for concurrent use.
type RequestReader struct {
	r       *bufio.Reader
	maxText int
	buf     []byte
	version Version
}

// Version is that in which the last request wants its answer.
func (r *RequestReader) Version() Version {
	if !r.version.understood() {
		return Newest // which the other side may understand
	}
	return r.version
}

// NewRequestReader reads from r requests whose text has at most maxText bytes.
func NewRequestReader(r io.Reader, maxText int) *RequestReader {
	return &RequestReader{r: bufio.NewReaderSize(r, 32<<10), maxText: maxText}
}

// Next reads one request. After ErrTooLong or ErrVersion the id is valid and can
// be answered, and reading goes on; after any other error it cannot. io.EOF
// comes only between two requests.
func (r *RequestReader) Next() (id uint64, req Request, err error) {
	size, err := readSize(r.r, requestHead, maxRequest)
	if err != nil {
		return 0, Request{}, err
	}
	var head [requestHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return 0, Request{}, fmt.Errorf("read request: %w", unexpected(err))
	}
	rest := size - requestHead
	id = binary.BigEndian.Uint64(head[:])
	if r.version = Version(head[8]); !r.version.understood() {
		return id, Request{}, r.skip(rest, ErrVersion)
	}
	copy(req.Key[:], head[9:25])
	name := int(binary.BigEndian.Uint16(head[25:]))
	if name > maxDatabase || name > rest {
		return 0, Request{}, errFrame
	}
	if rest-name > r.maxText {
		return id, req, r.skip(rest, ErrTooLong)
	}
	if cap(r.buf) < rest {
		r.buf = make([]byte, rest)
	}
	b := r.buf[:rest]
	if _, err := io.ReadFull(r.r, b); err != nil {
		return 0, Request{}, fmt.Errorf("read request: %w", unexpected(err))
	}
	if cap(r.buf) > keepBuffer {
		r.buf = nil
	}
	req.Database, req.Text = string(b[:name]), string(b[name:])
	return id, req, nil
}

// keepBuffer is the largest buffer that outlives its request: one long text must
// not cost every connection its size for ever.
const keepBuffer = 64 << 10

func (r *RequestReader) skip(n int, because error) error {
	if _, err := r.r.Discard(n); err != nil {
		return fmt.Errorf("read request: %w", unexpected(err))
	}
	return because
}

// AppendResponse appends the frame of a response in the newest version.
func AppendResponse(b []byte, id uint64, v Verdict) []byte { return Newest.AppendResponse(b, id, v) }

// AppendNoVerdict appends the frame that says ErrNoVerdict, in the newest version.
func AppendNoVerdict(b []byte, id uint64) []byte { return Newest.AppendNoVerdict(b, id) }

// AppendResponse appends the frame of a response. What the version cannot say is left
// out: kind and effects hold without it.
func (f Version) AppendResponse(b []byte, id uint64, v Verdict) []byte {
	return f.appendResponse(b, id, byte(v.Kind), v)
}

// AppendNoVerdict appends the frame that says ErrNoVerdict.
func (f Version) AppendNoVerdict(b []byte, id uint64) []byte {
	return f.appendResponse(b, id, noVerdict, Verdict{})
}

func (f Version) appendResponse(b []byte, id uint64, kind byte, v Verdict) []byte {
	var detail []byte
	if f >= firstDetail {
		detail = v.Detail.encode()
	}
	b = binary.BigEndian.AppendUint32(b, uint32(responseSize+len(detail)))
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, byte(f), kind)
	b = binary.BigEndian.AppendUint32(b, uint32(v.Effects))
	b = binary.BigEndian.AppendUint64(b, v.Fingerprint)
	b = binary.BigEndian.AppendUint64(b, v.Generation)
	var flags byte
	if v.Passing {
		flags |= flagPassing
	}
	b = append(b, flags)
	return append(b, detail...)
}

// ResponseReader reads responses from a connection. It is not safe for
// concurrent use.
type ResponseReader struct {
	r       *bufio.Reader
	buf     []byte
	version Version
}

// Version is that of the last response, whether or not it is understood.
func (r *ResponseReader) Version() Version { return r.version }

// NewResponseReader reads responses from r.
func NewResponseReader(r io.Reader) *ResponseReader {
	return &ResponseReader{r: bufio.NewReaderSize(r, 8<<10), buf: make([]byte, responseSize)}
}

// Next reads one response. After ErrVersion and ErrNoVerdict the id is valid and
// reading goes on.
// io.EOF comes only between two responses.
func (r *ResponseReader) Next() (id uint64, v Verdict, err error) {
	size, err := readSize(r.r, 9, maxResponse)
	if err != nil {
		return 0, Verdict{}, err
	}
	if cap(r.buf) < size {
		r.buf = make([]byte, size)
	}
	b := r.buf[:size]
	if _, err := io.ReadFull(r.r, b); err != nil {
		return 0, Verdict{}, fmt.Errorf("read response: %w", unexpected(err))
	}
	id = binary.BigEndian.Uint64(b)
	if r.version = Version(b[8]); !r.version.understood() {
		return id, Verdict{}, ErrVersion
	}
	if size < responseSize || size > responseSize && r.version < firstDetail {
		return 0, Verdict{}, errFrame
	}
	if b[9] == noVerdict {
		return id, Verdict{}, ErrNoVerdict
	}
	v = Verdict{
		Kind:        Kind(b[9]),
		Effects:     Effect(binary.BigEndian.Uint32(b[10:])),
		Fingerprint: binary.BigEndian.Uint64(b[14:]),
		Generation:  binary.BigEndian.Uint64(b[22:]),
		Passing:     b[30] == flagPassing,
	}
	if v.Kind > Read || v.Effects&^known != 0 || b[30]&^flagPassing != 0 {
		return id, Verdict{}, ErrVersion // half understood is not understood
	}
	if v.Detail, err = decodeDetail(b[responseSize:]); err != nil {
		return 0, Verdict{}, errFrame
	}
	return id, v, nil
}

func readSize(r *bufio.Reader, least, most int) (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, fmt.Errorf("read frame: %w", err)
	}
	n := binary.BigEndian.Uint32(b[:])
	if uint64(n) < uint64(least) || uint64(n) > uint64(most) {
		return 0, errFrame
	}
	return int(n), nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
