package engine

import "testing"

// What a server says against a question is a line of the log, without bytes of the protocol.
func TestARefusalIsReadable(t *testing.T) {
	body := []byte("SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection due to administrator command\x00\x00")
	if got, want := refusal(body), "FATAL 57P01: terminating connection due to administrator command"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := refusal([]byte("S")); got == "" {
		t.Error("nothing is said of an illegible one")
	}
}
