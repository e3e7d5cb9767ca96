package news

import (
	"fmt"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/rundir"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// keyName is the file of the run directory with the key of template keys, so that what
// one router learns of a statement serves all of them.
const keyName = "template.key"

// TemplateKey gives what template keys are keyed with. Routers of one run directory have
// the same, and so have those of all hosts that share bus.secret_file, which is then named
// here: a verdict that the classifier of one has published is understood by all. Who reads
// the bus without the secret cannot tell from a key which statement it is.
func TemplateKey(dir *rundir.Dir, secretFile string) (key sqltoken.Secret, err error) {
	var b []byte
	if secretFile == "" {
		b, err = dir.Secret(keyName, len(key))
	} else {
		var services bus.Key
		if services, err = bus.Credential(dir, secretFile); err == nil {
			b, err = services.Derive("template keys")
		}
	}
	if err != nil {
		return key, fmt.Errorf("key the templates of statements: %w", err)
	}
	copy(key[:], b)
	return key, nil
}
