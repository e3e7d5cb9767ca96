package parse

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
	"golang.org/x/sys/unix"
)

// Subcommand is the first argument of a worker. The second is Limits.Memory, the
// third Limits.Tree.
const Subcommand = "parse-worker"

// IsWorker reports whether a program with these arguments is to call Serve.
func IsWorker(args []string) bool { return len(args) == 4 && args[1] == Subcommand }

// Parser parses a text. Its only implementation outside tests is C.
type Parser func(text string, normalize bool) Raw

// Raw is what the parser made of a text.
type Raw struct {
	// Tree is the parse tree in protobuf.
	Tree []byte
	// Err is the parser's complaint. The other fields are empty then.
	Err error
	// Fingerprint is pg_query's.
	Fingerprint uint64
	// Normalized is the text with parameters for constants, if it was asked for.
	Normalized string
}

// C calls pg_query in this process.
func C(text string, normalize bool) Raw {
	tree, err := parser.ParseToProtobuf(text)
	if err != nil {
		return Raw{Err: err}
	}
	r := Raw{Tree: tree}
	// A text that parsed has both; nothing is right if not.
	r.Fingerprint, _ = pgquery.FingerprintToUInt64(text)
	if normalize {
		r.Normalized, _ = pgquery.Normalize(text)
	}
	return r
}

// Serve is a worker's life: it answers on standard output what it reads on
// standard input until that ends. It gives the process's exit code.
func Serve(args []string, parse Parser) int {
	// The terminal and systemd signal the whole group; the owner decides when its
	// workers end.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := confine(args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "confine the parser process:", err)
		return 1
	}
	tree, err := strconv.Atoi(args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the limit of trees:", err)
		return 1
	}
	go endWithOwner()
	// The parser keeps its memory per thread.
	runtime.LockOSThread()
	in := frames{r: os.Stdin}
	var out []byte
	for {
		text, normalize, err := in.request()
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "read a text:", err)
			return 1
		}
		a := sum(parse(text, normalize), tree)
		out = appendAnswer(out[:0], &a)
		if _, err := os.Stdout.Write(out); err != nil {
			return 1 // the owner is gone
		}
		if cap(out) > keepBuffer {
			out = nil
		}
	}
}

// outOfMemory is the message of PostgreSQL's ERRCODE_OUT_OF_MEMORY, from mcxt.c and
// aset.c.
const outOfMemory = "out of memory"

func sum(r Raw, tree int) answer {
	switch refused := (*parser.Error)(nil); {
	case errors.As(r.Err, &refused) && refused.Message == outOfMemory:
		return answer{outcome: outcomeMemory}
	case r.Err != nil:
		message := r.Err.Error()
		return answer{outcome: outcomeRefused, body: []byte(message[:min(len(message), maxComplaint)])}
	case len(r.Tree) > tree:
		return answer{outcome: outcomeTooLarge}
	}
	a := answer{outcome: outcomeParsed, fingerprint: r.Fingerprint, body: r.Tree}
	if len(r.Normalized) <= maxNormalized {
		a.normalized = r.Normalized
	}
	return a
}

// maxComplaint bounds the parser's message, which quotes the text.
const maxComplaint = 4 << 10

// confine gives up what parsing does not need. Memory is limited by RLIMIT_DATA,
// to so much more than the process has mapped by now: Go reserves far more address
// space than it uses, so RLIMIT_AS says nothing.
func confine(memory string) error {
	limit, err := strconv.ParseUint(memory, 10, 63)
	if err != nil {
		return fmt.Errorf("read the memory limit: %w", err)
	}
	mapped, err := statm(os.Getpid(), statmData)
	if err != nil {
		return err
	}
	// Where memory runs out, a worker is the process to lose. Not every system lets
	// it say so.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	for _, l := range []struct {
		name     string
		resource int
		limit    uint64
	}{
		{"memory", unix.RLIMIT_DATA, mapped + limit},
		{"core dumps", unix.RLIMIT_CORE, 0}, // they would hold statements' text
		{"files", unix.RLIMIT_FSIZE, 0},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.limit, Max: l.limit}); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	return nil
}

// endWithOwner ends the process when nobody can write to it any more, which it
// would otherwise notice only between two texts.
func endWithOwner() {
	for {
		// No events are asked for: hang-ups are told unasked.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(os.Stdin.Fd())}}, -1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			os.Exit(0)
		}
	}
}
