package bus

import (
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/pgpilot/pgpilot/libs/rundir"
)

// secretName is the file of the run directory that makes a service a service:
// who can read it may publish positions and verdicts.
const secretName = "bus.secret"

// secretLen is the length of an Ed25519 seed.
const secretLen = 32

// Key is the services' identity on the bus. The secret never travels: the server
// sends a nonce to sign.
type Key struct {
	// Public is the NKey user name, to be admitted by the server.
	Public string
	pair   nkeys.KeyPair
}

// Sign implements nats.SignatureHandler.
func (k Key) Sign(nonce []byte) ([]byte, error) { return k.pair.Sign(nonce) }

// Credential reads the services' key from the run directory, making it if this
// is its first use. The directory is private to one user.
func Credential(dir *rundir.Dir) (Key, error) {
	seed, err := dir.Secret(secretName, secretLen)
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
