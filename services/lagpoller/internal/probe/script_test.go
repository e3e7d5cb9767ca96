package probe

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/dial"
)

// answer is what a scripted server says to one query: a row, or an error. A FATAL
// error ends the connection; no answer at all keeps the client waiting.
type answer struct {
	row    []string
	err    *pgproto3.ErrorResponse
	silent bool
}

func row(cols ...string) answer { return answer{row: cols} }

// introduction is what Dial asks.
var introduction = []answer{
	row("7", "1", "0/1", "db"),
	row("100", "200", "t", "150018", "8192", "16777216"),
}

// scripted runs a server that gives these answers, whatever is asked, on a Unix
// socket (where no encryption is negotiated).
func scripted(t *testing.T, answers ...answer) Target {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") // short: socket paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		perform(pgproto3.NewBackend(c, c), answers)
	}()
	return Target{Server: dial.Server{Host: dir, Port: 5432}, User: "u", Password: "p", Database: "d"}
}

// perform plays the script until the client goes away.
func perform(b *pgproto3.Backend, answers []answer) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	for {
		if _, err := b.Receive(); err != nil {
			return
		}
		if len(answers) == 0 || answers[0].silent {
			continue
		}
		a := answers[0]
		answers = answers[1:]
		if a.err != nil {
			b.Send(a.err)
			if a.err.Severity == "FATAL" {
				_ = b.Flush()
				return
			}
		} else if a.row != nil {
			b.Send(&pgproto3.DataRow{Values: values(a.row)})
		}
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if b.Flush() != nil {
			return
		}
	}
}

// values makes a row of text, in which "" stands for NULL.
func values(cols []string) [][]byte {
	out := make([][]byte, len(cols))
	for i, c := range cols {
		if c != "" {
			out[i] = []byte(c)
		}
	}
	return out
}

func system(timeline string) answer { return row("7", timeline, "0/FFFFFF", "db") }

func standby(replay string) answer { return row("t", replay, "0/30", "", "", "", "t") }

func TestATimelineThatChangesMeanwhileIsAskedAgain(t *testing.T) {
	c := login(t, scripted(t, append(introduction,
		system("1"), standby("0/10"), system("2"), // which one is 0/10 on?
		system("2"), standby("0/20"), system("2"),
	)...))
	o, err := c.Observe(patience)
	if err != nil || o.Incarnation.Timeline != 2 || o.Replay != 0x20 {
		t.Fatalf("got %+v, %v", o, err)
	}
}

func TestABurstTrustsNoPositionAcrossTimelines(t *testing.T) {
	c := login(t, scripted(t, append(introduction,
		row("0/10"), system("1"),
		row("0/20"), system("2"),
		row("0/30"), system("2"),
	)...))
	if o, err := c.ObserveReplay(patience); err != nil || o.Incarnation.Timeline != 1 || o.Replay != 0x10 {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := c.ObserveReplay(patience); !errors.Is(err, ErrTurning) {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := c.ObserveReplay(patience); err != nil || o.Incarnation.Timeline != 2 || o.Replay != 0x30 {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestOddAnswersAreErrors(t *testing.T) {
	fatal := answer{err: &pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "terminating connection"}}
	plain := answer{err: &pgproto3.ErrorResponse{Severity: "ERROR", Code: "42883", Message: "function does not exist"}}
	for name, c := range map[string]struct {
		answers []answer
		want    string
	}{
		"terminated between the queries": {[]answer{system("1"), fatal}, "57P01"},
		"an error":                       {[]answer{system("1"), plain, system("1")}, "42883"},
		"no row":                         {[]answer{system("1"), {}, system("1"), system("1"), {}, system("1"), system("1"), {}, system("1")}, ErrTurning.Error()},
		"too few columns":                {[]answer{system("1"), row("t"), system("1")}, "1 columns instead of 7"},
		"no system identifier":           {[]answer{row("x", "1"), standby("0/10"), system("1")}, "system identifier"},
		"no timeline":                    {[]answer{row("7", "x"), standby("0/10"), system("1")}, "timeline"},
		"IDENTIFY_SYSTEM with no column": {[]answer{row("7"), standby("0/10"), system("1")}, "1 columns instead of 4"},
	} {
		conn := login(t, scripted(t, append(append([]answer{}, introduction...), c.answers...)...))
		if o, err := conn.Observe(patience); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v", name, o, err)
		}
	}
}

func TestOddIntroductionsAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer
		want    string
	}{
		"no row":                    {[]answer{system("1"), {}}, "gave no row"},
		"no checkpointer yet":       {[]answer{system("1"), row("100", "", "t", "150018", "8192", "16777216")}, errNotYet.Error()},
		"not allowed to see it":     {[]answer{system("1"), row("100", "", "f", "150018", "8192", "16777216")}, "GRANT pg_read_all_stats"},
		"a number that is none":     {[]answer{system("1"), row("100", "x", "t", "150018", "8192", "16777216")}, "column 2"},
		"a column too few":          {[]answer{system("1"), row("100", "200", "t", "150018", "8192")}, "5 columns instead of 6"},
		"terminated while it began": {[]answer{{err: &pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "starting up"}}}, "57P03"},
	} {
		conn, err := Dial(t.Context(), scripted(t, c.answers...), patience)
		if err == nil {
			conn.Close()
			t.Errorf("%s: connected", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The server that stops in the middle of an answer is given up at the deadline,
// and Close from another goroutine ends the wait before it.
func TestASilentServerHoldsNothingUp(t *testing.T) {
	quiet := append(append([]answer{}, introduction...), system("1"), answer{silent: true})
	c := login(t, scripted(t, quiet...))
	if _, err := c.Observe(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	c = login(t, scripted(t, quiet...))
	failed := make(chan error, 1)
	go func() {
		_, err := c.Observe(time.Hour)
		failed <- err
	}()
	c.Close()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("an observation without an answer")
		}
	case <-time.After(patience):
		t.Error("Close did not end the wait")
	}
}

func TestFailuresAreTold(t *testing.T) {
	if !Full(&pgconn.PgError{Code: "53300"}) || Full(&pgconn.PgError{Code: "57P03"}) || Full(errors.New("x")) || Full(nil) {
		t.Error("Full")
	}
	if !Refused(&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR"}) || Refused(&pgconn.PgError{SeverityUnlocalized: "FATAL"}) || Refused(nil) {
		t.Error("Refused")
	}
}
