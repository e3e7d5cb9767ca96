package sqltoken

// encoder collects the token stream of a template and hashes it. Its buffer is fixed: a stream that
// outgrows it is hashed in chunks, each of which begins with the digest of the one before, so a
// statement of any length costs the same memory.
//
// The encoding is a prefix code, so different streams have different encodings:
//
//	Word            its bytes, ASCII folded, then end
//	Self            its byte
//	Param           its bytes, then end
//	String, Integer, ... one tag byte
//	everything else one tag byte, its bytes, then end
//
// Tags and end are below 0x20, where no word, parameter or self character begins.
type encoder struct {
	hasher hasher
	// chained is set once a chunk was hashed and its digest put behind the header.
	chained bool
	n       int
	buf     [4096]byte
}

// headerSize is that of the mode, the server's release and the Context.
const headerSize = 1 + 1 + 16

const (
	end            = 0x00
	tagQuoted      = 0x01
	tagUnicode     = 0x02
	tagOperator    = 0x03
	tagOther       = 0x04
	tagNChar       = 0x05
	tagFloatBits   = 0x06 // float(n): n decides between real and double precision
	tagLiteralKind = 0x10 // plus Kind - String
	// Whole numbers beyond int32, by the type PostgreSQL gives them with and without a minus sign
	// before them; others are numeric either way.
	tagWhole31   = 0x18 // 2^31: integer if negated, else bigint
	tagWholeInt8 = 0x19 // bigint
	tagWhole63   = 0x1a // 2^63: bigint if negated, else numeric
)

// start begins a stream.
func (e *encoder) start(opts *Options) {
	e.buf[1] = byte(opts.ServerMajor)
	copy(e.buf[2:], opts.Context[:])
	e.chained = false
	e.n = headerSize
}

func (e *encoder) sum(m mode) [16]byte {
	e.buf[0] = byte(m)
	return e.hasher.sum(e.buf[:e.n])
}

// template ends the stream and returns its key.
func (e *encoder) template() Key {
	if e.chained {
		return e.sum(modeLastChunk)
	}
	return e.sum(modeTemplate)
}

// fullText returns the key of a text that has no template.
func (e *encoder) fullText(text []byte) Key {
	if len(text) <= len(e.buf)-headerSize {
		e.n = headerSize + copy(e.buf[headerSize:], text)
		return e.sum(modeFullText)
	}
	digest := e.hasher.digest(text)
	e.n = headerSize + copy(e.buf[headerSize:], digest[:])
	return e.sum(modeLongText)
}

func (e *encoder) chunk() {
	m := modeFirstChunk
	if e.chained {
		m = modeNextChunk
	}
	digest := e.sum(m)
	e.chained = true
	e.n = headerSize + copy(e.buf[headerSize:], digest[:])
}

func (e *encoder) byte(c byte) {
	if e.n == len(e.buf) {
		e.chunk()
	}
	e.buf[e.n] = c
	e.n++
}

func (e *encoder) bytes(p []byte) {
	for len(p) > 0 {
		if e.n == len(e.buf) {
			e.chunk()
		}
		n := copy(e.buf[e.n:], p)
		e.n += n
		p = p[n:]
	}
}

func (e *encoder) tagged(tag byte, p []byte) {
	e.byte(tag)
	e.bytes(p)
	e.byte(end)
}

func (e *encoder) word(p []byte) {
	if len(e.buf)-e.n <= len(p) {
		e.longWord(p)
		return
	}
	out := e.buf[e.n:][:len(p)]
	for i, c := range p {
		out[i] = fold[c]
	}
	e.buf[e.n+len(p)] = end
	e.n += len(p) + 1
}

func (e *encoder) longWord(p []byte) {
	for _, c := range p {
		e.byte(fold[c])
	}
	e.byte(end)
}

// literal encodes a constant as its kind.
func (e *encoder) literal(t Token, text []byte) {
	if t.Kind == Float && t.Flags&Whole != 0 {
		switch v := wholeValue(text); {
		case v == 1<<31:
			e.byte(tagWhole31)
			return
		case v < 1<<63:
			e.byte(tagWholeInt8)
			return
		case v == 1<<63:
			e.byte(tagWhole63)
			return
		}
	}
	e.byte(tagLiteralKind + byte(t.Kind-String))
}
