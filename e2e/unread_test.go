package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A client that asks and does not read is not listened to any more, as by a server, also where
// pgpilot answers by itself. Nothing of it is lost.
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), nil)
	for name, c := range map[string]struct {
		ask []pgproto3.FrontendMessage
	}{
		"show":         {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "SHOW pgpilot.route"}}},
		"sync":         {[]pgproto3.FrontendMessage{&pgproto3.Sync{}}},
		"transactions": {[]pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN"}, &pgproto3.Query{String: "COMMIT"}}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := hijack(t, r.connect()).conn.Conn
			var one []byte
			for _, m := range c.ask {
				var err error
				if one, err = m.Encode(one); err != nil {
					t.Fatal(err)
				}
			}
			const most = 24 << 20
			chunk := bytes.Repeat(one, 1<<18/len(one))
			sent := 0
			for sent < most {
				if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
					t.Fatal(err)
				}
				n, err := conn.Write(chunk[sent%len(one):])
				sent += n
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if sent >= most {
				t.Errorf("%d bytes were taken although no answer was read", sent)
			}
			rest := len(one) - sent%len(one)
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			write := make(chan error, 1)
			go func() {
				_, err := conn.Write(one[len(one)-rest:])
				write <- err
			}()
			want := (sent + rest) / len(one) * len(c.ask)
			in := bufio.NewReaderSize(conn, 1<<20)
			var header [5]byte
			for got := 0; got < want; {
				if _, err := io.ReadFull(in, header[:]); err != nil {
					t.Fatalf("after %d of %d answers: %v", got, want, err)
				}
				length := int(header[1])<<24 | int(header[2])<<16 | int(header[3])<<8 | int(header[4])
				if _, err := in.Discard(length - 4); err != nil {
					t.Fatal(err)
				}
				switch header[0] {
				case 'Z':
					got++
				case 'E':
					t.Fatal("an error")
				}
			}
			if err := <-write; err != nil {
				t.Fatal(err)
			}
		})
	}
}
