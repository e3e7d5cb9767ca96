package bus

import (
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/pgpilot/pgpilot/libs/config"
	"github.com/pgpilot/pgpilot/libs/obs"
	"github.com/pgpilot/pgpilot/libs/rundir"
)

// signIn gives the options by which a service proves who it is. What is in a file or
// the environment is read anew at each connection, but for keys.
func signIn(dir *rundir.Dir, b config.Bus, log *slog.Logger) ([]nats.Option, error) {
	switch {
	case b.URL == "" || b.SecretFile != "":
		key, err := Credential(dir, b.SecretFile)
		if err != nil {
			return nil, err
		}
		return []nats.Option{nats.Nkey(key.Public, key.Sign)}, nil
	case b.CredsFile != "":
		return []nats.Option{nats.UserCredentials(b.CredsFile)}, nil
	case b.NKeyFile != "":
		opt, err := nats.NkeyOptionFromSeed(b.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the key in bus.nkey_file %s: %w", b.NKeyFile, err)
		}
		return []nats.Option{opt}, nil
	case b.Anonymous:
		return nil, nil
	}
	if _, err := b.Secret(); err != nil {
		return nil, err
	}
	secret := func() string {
		s, err := b.Secret()
		if err != nil {
			log.Error("the bus cannot be signed in at", obs.KeyError, err)
		}
		return s
	}
	if b.User == "" {
		return []nats.Option{nats.TokenHandler(secret)}, nil
	}
	return []nats.Option{nats.UserInfoHandler(func() (string, string) { return b.User, secret() })}, nil
}
