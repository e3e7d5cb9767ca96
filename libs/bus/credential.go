package bus

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"

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
