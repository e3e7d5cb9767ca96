package lsn

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a byte position in the write-ahead log. Zero is PostgreSQL's
// InvalidXLogRecPtr and means "none".
type LSN uint64

// Parse reads the text form of pg_lsn, two hexadecimal numbers of at most 32
// bits each around a slash: 16/B374D848.
func Parse(s string) (LSN, error) {
	// Errors quote a copy: s need not outlive the call then, and the caller may make it of
	// bytes without an allocation.
	hi, lo, ok := strings.Cut(s, "/")
	if !ok {
		return 0, fmt.Errorf("parse LSN %q: want two hexadecimal numbers separated by a slash", strings.Clone(s))
	}
	h, err := parseHalf(hi)
	if err != nil {
		return 0, fmt.Errorf("parse LSN %q: %w", strings.Clone(s), err)
	}
	l, err := parseHalf(lo)
	if err != nil {
		return 0, fmt.Errorf("parse LSN %q: %w", strings.Clone(s), err)
	}
	return LSN(h<<32 | l), nil
}

func parseHalf(s string) (uint64, error) {
	if len(s) == 0 || len(s) > 8 || s[0] == '+' || s[0] == '-' || s[0] == '_' {
		return 0, fmt.Errorf("%q is not a hexadecimal number of 1 to 8 digits", strings.Clone(s))
	}
	return strconv.ParseUint(s, 16, 32)
}

// String gives PostgreSQL's own text form.
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint64(l)>>32, uint64(l)&0xFFFFFFFF)
}

// MarshalText implements encoding.TextMarshaler.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *LSN) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err != nil {
		return err
	}
	*l = v
	return nil
}

// Geometry is the layout of a server's WAL, from its wal_block_size and
// wal_segment_size settings, in bytes.
type Geometry struct {
	BlockSize   uint32 `json:"wal_block_size"`
	SegmentSize uint32 `json:"wal_segment_size"`
}

// DefaultGeometry is that of a server built and initialised with defaults.
var DefaultGeometry = Geometry{BlockSize: 8192, SegmentSize: 16 << 20}

// Page header sizes of PostgreSQL's WAL (SizeOfXLogShortPHD, SizeOfXLogLongPHD):
// every page starts with the short one, a segment's first page with the long one.
const (
	shortPageHeader = 24
	longPageHeader  = 40
)

// RoundToPage lowers a position that lies just behind a page header to the
// start of that page. The primary's insert position counts the header of a page
// as soon as it is needed, while a replica's replay position ends with the last
// record, which is before that header: no replica reaches the unrounded position
// until more WAL is written. No record ends inside a page header, so a replica
// at the page start has replayed everything before the position.
func (g Geometry) RoundToPage(l LSN) LSN {
	if g.BlockSize == 0 || g.SegmentSize == 0 {
		return l
	}
	off := uint64(l) % uint64(g.BlockSize)
	header := uint64(shortPageHeader)
	if uint64(l)%uint64(g.SegmentSize) < uint64(g.BlockSize) {
		header = longPageHeader
	}
	if off != 0 && off <= header {
		return l - LSN(off)
	}
	return l
}
