package session_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgpilot/pgpilot/libs/wire"
)

// kind is a message type as scripts write it.
type kind struct {
	name string
	typ  byte
	body string // where the script gives none
}

var clientKinds = []kind{
	{"Query", wire.Query, "\x00"},
	{"Parse", wire.Parse, "\x00SELECT 1\x00\x00\x00"},
	{"Bind", wire.Bind, "\x00\x00\x00\x00\x00\x00\x00\x00"},
	{"Describe", wire.Describe, "S\x00"},
	{"Execute", wire.Execute, "\x00\x00\x00\x00\x00"},
	{"Close", wire.Close, "S\x00"},
	{"Sync", wire.Sync, ""},
	{"Flush", wire.Flush, ""},
	{"FunctionCall", wire.FunctionCall, "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"},
	{"CopyData", wire.CopyData, ""},
	{"CopyDone", wire.CopyDone, ""},
	{"CopyFail", wire.CopyFail, "\x00"},
	{"Terminate", wire.Terminate, ""},
}

var serverKinds = []kind{
	{"ReadyForQuery", wire.ReadyForQuery, "I"},
	{"ErrorResponse", wire.ErrorResponse, ""},
	{"NoticeResponse", wire.NoticeResponse, ""},
	{"ParameterStatus", wire.ParameterStatus, ""},
	{"NotificationResponse", wire.NotificationResponse, "\x00\x00\x00\x01chan\x00\x00"},
	{"RowDescription", wire.RowDescription, "\x00\x00"},
	{"DataRow", wire.DataRow, ""},
	{"CommandComplete", wire.CommandComplete, "\x00"},
	{"EmptyQueryResponse", wire.EmptyQueryResponse, ""},
	{"PortalSuspended", wire.PortalSuspended, ""},
	{"ParseComplete", wire.ParseComplete, ""},
	{"BindComplete", wire.BindComplete, ""},
	{"CloseComplete", wire.CloseComplete, ""},
	{"NoData", wire.NoData, ""},
	{"ParameterDescription", wire.ParameterDescription, "\x00\x00"},
	{"CopyInResponse", wire.CopyInResponse, "\x00\x00\x00"},
	{"CopyOutResponse", wire.CopyOutResponse, "\x00\x00\x00"},
	{"CopyData", wire.CopyData, ""},
	{"CopyDone", wire.CopyDone, ""},
	{"FunctionCallResponse", wire.FunctionCallResponse, "\xff\xff\xff\xff"},
	{"BackendKeyData", wire.BackendKeyData, ""},
}

// message builds a message.
func message(typ byte, body string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{typ}, uint32(4+len(body)))
	return append(b, body...)
}

// words splits a script line at spaces, keeping Go string literals together,
// which are unquoted and marked by a leading quote.
func words(line string) ([]string, error) {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			s, err := strconv.Unquote(q)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", q, err)
			}
			out = append(out, `"`+s)
			line = line[len(q):]
			continue
		}
		w, rest, _ := strings.Cut(line, " ")
		out = append(out, w)
		line = rest
	}
	return out, nil
}

// encode builds the messages that words name: a type, then strings for its body,
// size=N for a body of N bytes, or what an ErrorResponse and its like consist of;
// hex=… stands for any bytes.
func encode(kinds []kind, ws []string) ([]byte, error) {
	var out []byte
	for len(ws) > 0 {
		name := ws[0]
		n := 1
		for n < len(ws) && !isKind(kinds, ws[n]) && !strings.HasPrefix(ws[n], "hex=") {
			n++
		}
		args := ws[1:n]
		ws = ws[n:]
		if h, ok := strings.CutPrefix(name, "hex="); ok {
			b, err := hex.DecodeString(h)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, b...)
			continue
		}
		k, ok := find(kinds, name)
		if !ok {
			return nil, fmt.Errorf("no message is called %s", name)
		}
		body, err := k.encode(args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, message(k.typ, body)...)
	}
	return out, nil
}

func isKind(kinds []kind, name string) bool {
	_, ok := find(kinds, name)
	return ok
}

func find(kinds []kind, name string) (kind, bool) {
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

func (k kind) encode(args []string) (string, error) {
	if len(args) == 0 {
		return k.body, nil
	}
	if s, ok := strings.CutPrefix(args[0], "size="); ok {
		n, err := strconv.Atoi(s)
		if k.name == "Parse" && n > 4 {
			return "\x00" + strings.Repeat("x", n-4) + "\x00\x00\x00", err
		}
		return strings.Repeat("x", n), err
	}
	var strs []string
	for _, a := range args {
		strs = append(strs, strings.TrimPrefix(a, `"`))
	}
	switch k.name {
	case "ErrorResponse", "NoticeResponse":
		var more string
		strs = slices.DeleteFunc(strs, func(s string) bool {
			field, value, ok := strings.Cut(s, "=")
			letter, is := map[string]string{"file": "F", "context": "W", "position": "P", "routine": "R"}[field]
			if ok && is {
				more += letter + value + "\x00"
			}
			return ok && is
		})
		if len(strs) != 3 && len(strs) != 4 {
			return "", fmt.Errorf("want severity, code, message and perhaps a hint, file=, context=, position= or routine=")
		}
		b := "S" + strs[0] + "\x00V" + strs[0] + "\x00C" + strs[1] + "\x00M" + strs[2] + "\x00"
		if len(strs) == 4 {
			b += "H" + strs[3] + "\x00"
		}
		return b + more + "\x00", nil
	case "Query", "CopyFail", "CommandComplete":
		return strs[0] + "\x00", nil
	case "Parse": // text, or name and text and types
		if len(strs) == 1 {
			strs = []string{"", strs[0]}
		}
		b := binary.BigEndian.AppendUint16([]byte(strs[0]+"\x00"+strs[1]+"\x00"), uint16(len(strs)-2))
		for _, t := range strs[2:] {
			n, err := strconv.Atoi(t)
			if err != nil {
				return "", err
			}
			b = binary.BigEndian.AppendUint32(b, uint32(n))
		}
		return string(b), nil
	case "Bind": // statement, or portal and statement, or those and size= of a parameter, or value= of each, or format= of the columns
		if len(strs) == 1 {
			strs = []string{"", strs[0]}
		}
		b := strs[0] + "\x00" + strs[1] + "\x00"
		if len(strs) == 2 {
			return b + "\x00\x00\x00\x00\x00\x00", nil
		}
		if f, ok := strings.CutPrefix(strs[2], "format="); ok {
			n, err := strconv.Atoi(f)
			return b + "\x00\x00\x00\x00\x00\x01\x00" + string(rune(n)), err
		}
		if strings.HasPrefix(strs[2], "value=") {
			p := binary.BigEndian.AppendUint16([]byte(b+"\x00\x00"), uint16(len(strs)-2))
			for _, v := range strs[2:] {
				v = strings.TrimPrefix(v, "value=")
				p = append(binary.BigEndian.AppendUint32(p, uint32(len(v))), v...)
			}
			return string(p) + "\x00\x00", nil
		}
		n, err := strconv.Atoi(strings.TrimPrefix(strs[2], "size="))
		size := binary.BigEndian.AppendUint32(nil, uint32(n))
		return b + "\x00\x00\x00\x01" + string(size) + strings.Repeat("x", n) + "\x00\x00", err
	case "Execute": // portal and limit
		limit := 0
		if len(strs) > 1 {
			var err error
			if limit, err = strconv.Atoi(strs[1]); err != nil {
				return "", err
			}
		}
		return string(binary.BigEndian.AppendUint32([]byte(strs[0]+"\x00"), uint32(limit))), nil
	case "Describe", "Close": // S or P and the name
		return strs[0] + "\x00", nil
	case "ParameterStatus":
		return strs[0] + "\x00" + strings.Join(strs[1:], "") + "\x00", nil
	case "DataRow":
		b := binary.BigEndian.AppendUint16(nil, uint16(len(strs)))
		for _, s := range strs {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		return string(b), nil
	}
	return strs[0], nil
}

// printer writes a stream of messages in the notation that encode reads, piece
// by piece as it is sent.
type printer struct {
	kinds []kind
	rest  int // bytes of a message whose beginning has been written
}

func (p *printer) print(b []byte) string {
	var out []string
	if p.rest > 0 {
		n := min(p.rest, len(b))
		out = append(out, fmt.Sprintf("… %d bytes", n))
		p.rest -= n
		b = b[n:]
	}
	for len(b) > 0 {
		typ, total, err := wire.Header(b)
		if err != nil || total == 0 {
			out = append(out, fmt.Sprintf("garbage %x", b))
			break
		}
		n := min(total, len(b))
		name := fmt.Sprintf("%q", typ)
		for _, k := range p.kinds {
			if k.typ == typ {
				name = k.name
			}
		}
		if n < total {
			p.rest = total - n
			out = append(out, fmt.Sprintf("%s, %d of %d bytes", name, n, total))
		} else {
			body := b[wire.HeaderSize:total]
			out = append(out, strings.TrimSpace(name+" "+content(name, body)))
		}
		b = b[n:]
	}
	return strings.Join(out, " | ")
}

func body0(b []byte) string { return strings.TrimSuffix(string(b), "\x00") }

// short abbreviates the name of a statement on servers.
func short(name string) string {
	if strings.HasPrefix(name, "pgpilot_") && len(name) > 12 {
		return name[:12] + "…"
	}
	return name
}

// content writes a body as far as a script is interested in it.
func content(name string, body []byte) string {
	if len(body) > 1000 {
		return fmt.Sprintf("(%d bytes)", len(body))
	}
	if k, ok := find(clientKinds, name); ok && k.body == string(body) && strings.Contains("Parse Bind Describe Execute Close", name) {
		return ""
	}
	switch name {
	case "Query", "CommandComplete", "CopyFail":
		return strconv.Quote(strings.TrimSuffix(string(body), "\x00"))
	case "CopyData":
		return strconv.Quote(string(body))
	case "Parse", "Bind":
		f := strings.SplitN(string(body), "\x00", 3)
		if len(f) < 3 {
			return fmt.Sprintf("garbage %x", body)
		}
		out := strconv.Quote(short(f[0])) + " " + strconv.Quote(short(f[1]))
		if name == "Parse" && len(f[2]) > 2 || len(f[2]) > 6 {
			out += fmt.Sprintf(" %x", f[2])
		}
		return out
	case "Describe", "Close":
		return body0(body[:1]) + strconv.Quote(short(body0(body[1:])))
	case "Execute":
		portal, limit, _ := strings.Cut(string(body), "\x00")
		return fmt.Sprintf("%q %x", portal, limit)
	case "ReadyForQuery":
		return string(body)
	case "ParameterStatus":
		k, v, _ := bytes.Cut(body, []byte{0})
		return fmt.Sprintf("%s %q", k, bytes.TrimSuffix(v, []byte{0}))
	case "ErrorResponse", "NoticeResponse":
		var e pgproto3.ErrorResponse
		if err := e.Decode(body); err != nil {
			return fmt.Sprintf("garbage %x", body)
		}
		s := fmt.Sprintf("%s %s %q", e.SeverityUnlocalized, e.Code, e.Message)
		if e.Detail != "" {
			s += fmt.Sprintf(" detail %q", e.Detail)
		}
		if e.Hint != "" {
			s += fmt.Sprintf(" hint %q", e.Hint)
		}
		if e.Routine != "" {
			s += " routine " + e.Routine
		}
		return s
	case "DataRow":
		var r pgproto3.DataRow
		if err := r.Decode(body); err != nil {
			return fmt.Sprintf("garbage %x", body)
		}
		var vs []string
		for _, v := range r.Values {
			if v == nil {
				vs = append(vs, "NULL")
				continue
			}
			vs = append(vs, strconv.Quote(string(v)))
		}
		return strings.Join(vs, " ")
	}
	return ""
}
