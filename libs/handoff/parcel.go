package handoff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Parcel is a session in the hands of who passes it on without serving it. Its record
// stays as it came, byte for byte, so that what a later release has written travels
// through an earlier one: only who is to serve the session must understand it. What is
// read here, and the one thing that is written, therefore have the same names and the
// same meaning in every version of a record.
type Parcel struct {
	// Session is its id.
	Session string
	// Cancel is its cancel key.
	Cancel CancelKey
	// Held says, for each server connection that travels along, whether the session cannot
	// do without it.
	Held []bool
	// Unread says that something its client has sent travels along.
	Unread bool

	payload []byte
	js      int // the length of the JSON, which begins at 4
}

// addressed is what is read of a record of any version.
type addressed struct {
	Session string    `json:"session"`
	Cancel  CancelKey `json:"cancel"`
	Live    *struct {
		Leases []struct {
			Idle bool `json:"idle"`
		} `json:"leases"`
	} `json:"live"`
}

// OpenParcel reads a record's payload, which is the parcel's from then on.
func OpenParcel(payload []byte) (*Parcel, error) {
	js, err := jsonOf(payload)
	if err != nil {
		return nil, err
	}
	var a addressed
	if err := json.Unmarshal(js, &a); err != nil {
		return nil, fmt.Errorf("decode session record: %w", err)
	}
	if a.Session == "" {
		return nil, errors.New("decode session record: it names no session")
	}
	p := &Parcel{Session: a.Session, Cancel: a.Cancel, Unread: len(payload) > 4+len(js), payload: payload, js: len(js)}
	if a.Live != nil {
		for _, l := range a.Live.Leases {
			p.Held = append(p.Held, !l.Idle)
		}
	}
	return p, nil
}

// Payload gives the record as it came.
func (p *Parcel) Payload() []byte { return p.payload }

// Canceled gives it with the mark that a cancel request has come for what is unread
// (Live.Canceled), or as it came if there is no place for the mark: the session has not
// been greeted yet, or its record is as long as one may be.
func (p *Parcel) Canceled() ([]byte, error) {
	var all, live map[string]json.RawMessage
	if err := json.Unmarshal(p.payload[4:4+p.js], &all); err != nil {
		return nil, fmt.Errorf("mark session record: %w", err)
	}
	if err := json.Unmarshal(all["live"], &live); err != nil || live == nil {
		return p.payload, nil //nolint:nilerr // there is no place for the mark
	}
	live["canceled"] = json.RawMessage("true")
	var err error
	if all["live"], err = plainly(live); err != nil {
		return nil, fmt.Errorf("mark session record: %w", err)
	}
	js, err := plainly(all)
	if err != nil {
		return nil, fmt.Errorf("mark session record: %w", err)
	}
	if len(js) > MaxRecord {
		return p.payload, nil
	}
	return payloadOf(js, p.payload[4+p.js:]), nil
}

// plainly encodes without escaping what only pages of the web need escaped.
func plainly(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
