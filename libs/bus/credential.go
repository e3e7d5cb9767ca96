package bus

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// secretName is the file of the run directory that makes a service a service:
// who can read it may publish positions and verdicts.
const secretName = "bus.secret"

// secretLen is the length of an Ed25519 seed.
const secretLen = 32

// minSecret is the least length of a secret that somebody else made: 128 bits in
// hexadecimal digits.
const minSecret = 32

// Key is the services' identity on the bus. The secret never travels: the server
// sends a nonce to sign.
type Key struct {
	// Public is the NKey user name, to be admitted by the server.
	Public string
	pair   nkeys.KeyPair
}

// Sign implements nats.SignatureHandler.
func (k Key) Sign(nonce []byte) ([]byte, error) { return k.pair.Sign(nonce) }

// Derive gives 32 bytes that only those with the key know, others for each purpose.
func (k Key) Derive(purpose string) ([]byte, error) {
	seed, err := k.pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("derive from the bus credential: %w", err)
	}
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte(purpose))
	return mac.Sum(nil), nil
}

// Credential gives the services' key: from the first line of a file, for services of
// several run directories, or without one from the run directory, where it is made
// if this is its first use. The directory is private to one user.
func Credential(dir *rundir.Dir, file string) (Key, error) {
	seed, err := seedOf(dir, file)
	if err != nil {
		return Key{}, fmt.Errorf("read the bus credential: %w", err)
	}
	encoded, err := nkeys.EncodeSeed(nkeys.PrefixByteUser, seed)
	if err != nil {
		return Key{}, fmt.Errorf("read the bus credential: %w", err)
	}
	pair, err := nkeys.FromSeed(encoded)
	if err != nil {
		return Key{}, fmt.Errorf("read the bus credential: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return Key{}, fmt.Errorf("read the bus credential: %w", err)
	}
	return Key{Public: public, pair: pair}, nil
}

// hostName is the file of the run directory that tells it from all others.
const hostName = "host.id"

// Identity gives what an instance calls itself on a bus that several run directories
// share: its id, @, and what tells its run directory from all others, which stays over
// restarts.
func Identity(dir *rundir.Dir, id string) (string, error) {
	host, err := dir.Secret(hostName, 4)
	if err != nil {
		return "", fmt.Errorf("name this host on the bus: %w", err)
	}
	return fmt.Sprintf("%s@%x", id, host), nil
}

// HostOf gives what an Identity says of the run directory, empty if it says nothing.
func HostOf(identity string) string {
	_, host, _ := strings.Cut(identity, "@")
	return host
}

func seedOf(dir *rundir.Dir, file string) ([]byte, error) {
	if file == "" {
		return dir.Secret(secretName, secretLen)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	secret, _, _ := bytes.Cut(text, []byte("\n"))
	secret = bytes.TrimSuffix(secret, []byte("\r"))
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the first line of %s has %d bytes and needs %d: write random ones there", file, len(secret), minSecret)
	}
	seed := sha256.Sum256(secret)
	return seed[:], nil
}
