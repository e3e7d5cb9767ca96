package verdict

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/pgpilot/pgpilot/libs/bus"
	"github.com/pgpilot/pgpilot/libs/sqltoken"
)

// Message is the verdict as it travels on bus.SubjectVerdict.
func (v Verdict) Message(database string, key sqltoken.Key) bus.Verdict {
	return bus.Verdict{
		V:           bus.Version,
		Database:    database,
		Key:         hex.EncodeToString(key[:]),
		Fingerprint: fmt.Sprintf("%016x", v.Fingerprint),
		Kind:        v.Kind.String(),
		Effects:     v.Effects.Names(),
		Generation:  v.Generation,
		Detail:      v.Detail.encode(),
	}
}

// FromMessage reads a verdict from the bus. A message that is not wholly
// understood is an error, to be counted and ignored: half a verdict is none.
func FromMessage(m bus.Verdict) (key sqltoken.Key, v Verdict, err error) {
	if m.V != bus.Version {
		return key, Verdict{}, fmt.Errorf("verdict message of version %d: %w", m.V, bus.ErrVersion)
	}
	if len(m.Key) != hex.EncodedLen(len(key)) {
		return key, Verdict{}, fmt.Errorf("verdict message has a key of %d digits, want %d", len(m.Key), hex.EncodedLen(len(key)))
	}
	if _, err := hex.Decode(key[:], []byte(m.Key)); err != nil {
		return key, Verdict{}, fmt.Errorf("read key of a verdict message: %w", err)
	}
	if v.Kind, err = ParseKind(m.Kind); err != nil {
		return key, Verdict{}, err
	}
	if v.Effects, err = ParseEffects(m.Effects); err != nil {
		return key, Verdict{}, err
	}
	if v.Fingerprint, err = strconv.ParseUint(m.Fingerprint, 16, 64); err != nil {
		return key, Verdict{}, fmt.Errorf("read fingerprint of a verdict message: %w", err)
	}
	v.Generation = m.Generation
	if v.Detail, err = decodeDetail(m.Detail); err != nil {
		return key, Verdict{}, err
	}
	return key, v, nil
}
