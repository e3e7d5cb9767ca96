package scram

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/xdg-go/scram"
)

const (
	// iterations, saltSize and nonceSize are PostgreSQL's (scram-common.h), so that
	// a client cannot tell one from the other by their sizes.
	iterations = 4096
	saltSize   = 16
	nonceSize  = 18
	// SecretSize is the least number of bytes a Book's secret has.
	SecretSize = 32
)

// User is a login with its password in the clear.
type User struct {
	Name     string
	Password string
}

// Book holds the verifiers of the users who may log in. It keeps no password. It
// is immutable and safe for concurrent use.
type Book struct {
	secret    []byte
	verifiers map[string]scram.StoredCredentials
}

// NewBook derives the users' verifiers, about a millisecond each. The secret
// decides all salts; processes that stand for one server share it.
func NewBook(secret []byte, users []User) (*Book, error) {
	if len(secret) < SecretSize {
		return nil, fmt.Errorf("derive verifiers: the secret has %d bytes, want %d", len(secret), SecretSize)
	}
	b := &Book{secret: append([]byte(nil), secret...), verifiers: make(map[string]scram.StoredCredentials, len(users))}
	for _, u := range users {
		if u.Password == "" {
			return nil, fmt.Errorf("derive verifier of user %q: the password is empty", u.Name)
		}
		v, err := derive(u.Password, b.salt(u.Name))
		if err != nil {
			return nil, fmt.Errorf("derive verifier of user %q: %w", u.Name, err)
		}
		b.verifiers[u.Name] = v
	}
	return b, nil
}

func derive(password string, salt []byte) (scram.StoredCredentials, error) {
	c, err := scram.SHA256.NewClientUnprepped("", prepare(password), "")
	if err != nil {
		return scram.StoredCredentials{}, err
	}
	return c.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: iterations})
}

// salt is a function of the name, known or not.
func (b *Book) salt(user string) []byte { return b.keyed("salt", user)[:saltSize] }

func (b *Book) keyed(purpose, user string) []byte {
	mac := hmac.New(sha256.New, b.secret)
	mac.Write([]byte(purpose + "\x00" + user))
	return mac.Sum(nil)
}

// lookup gives a user's verifier, or one that no password fits. Both are made on
// every call, so that their costs are alike.
func (b *Book) lookup(user string) (v scram.StoredCredentials, known bool) {
	mock := scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(b.salt(user)), Iters: iterations},
		StoredKey:  b.keyed("stored key", user),
		ServerKey:  b.keyed("server key", user),
	}
	if v, known = b.verifiers[user]; known {
		return v, true
	}
	return mock, false
}

// Begin starts an exchange for a login name.
func (b *Book) Begin(user string, tied Binding) (*Exchange, error) {
	v, known := b.lookup(user)
	srv, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return v, nil })
	if err != nil {
		return nil, fmt.Errorf("begin SCRAM exchange: %w", err)
	}
	return &Exchange{conv: tied.conversation(srv.WithNonceGenerator(nonce)), known: known, binding: tied}, nil
}

func nonce() string {
	raw := make([]byte, nonceSize)
	_, _ = rand.Read(raw) // never fails (crypto/rand)
	return base64.StdEncoding.EncodeToString(raw)
}

// ErrDenied reports that the password was wrong or the user does not exist;
// nothing tells the two apart.
var ErrDenied = errors.New("authentication failed")

// Knows says whether there is such a user. The answer is for the log: nothing that
// a client sees may depend on it.
func (b *Book) Knows(user string) bool {
	_, known := b.verifiers[user]
	return known
}
