package session_test

import (
	"strings"

	"github.com/pgpilot/pgpilot/libs/wire"
	"github.com/pgpilot/pgpilot/services/router/internal/settings"
)

// block is the transaction block of a model server process.
type block struct {
	modes settings.Modes
	// failing is how many more times it refuses to begin one, as if it were canceled.
	failing int
	// queried says that a snapshot has been taken: its isolation level cannot be changed.
	queried bool
}

// ofBlock reports whether the verb is that of a statement about a block.
func ofBlock(f []string) bool {
	switch f[0] {
	case "BEGIN", "START", "COMMIT", "END", "ABORT":
		return true
	case "SET":
		return f[1] == "TRANSACTION"
	case "ROLLBACK":
		return f[1] != "TO"
	}
	return false
}

func (p *postgres) warn(code, what string) { p.say("NoticeResponse", "WARNING", code, what) }

// blocks executes a statement about a block, and reports whether it has not failed.
func (p *postgres) blocks(stmt string) bool {
	b, ok := settings.ParseBlock([]byte(stmt))
	if !ok {
		return p.error("42601", stmt)
	}
	tag := b.Tag
	switch {
	case b.Kind == settings.BlockBegin && p.block.failing > 0:
		p.block.failing--
		return p.error("57014", "canceling statement due to user request")
	case b.Kind == settings.BlockBegin:
		if p.status != wire.Idle {
			p.warn("25001", "there is already a transaction in progress")
		} else {
			p.block.modes, p.block.queried = settings.Modes{}, false
		}
		p.status = wire.InTransaction
		p.block.modes = b.Under(p.block.modes)
	case b.Kind == settings.BlockSet:
		if p.status == wire.Idle {
			p.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")
			break
		}
		if p.block.queried && b.Modes.Isolation != settings.DefaultIsolation {
			return p.error("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
		}
		p.block.modes = b.Under(p.block.modes)
	case p.status == wire.Idle && b.Chain:
		return p.error("25P01", b.Tag+" AND CHAIN can only be used in transaction blocks")
	default:
		if p.status == wire.Idle {
			p.warn("25P01", "there is no transaction in progress")
		}
		if p.status == wire.Failed {
			tag = "ROLLBACK"
		}
		p.params.end(p.status != wire.Failed && b.Kind == settings.BlockCommit)
		clear(p.portals)
		p.status = wire.Idle
		p.block.queried = false
		if b.Chain {
			p.status = wire.InTransaction
		}
	}
	p.say("CommandComplete", tag)
	return true
}

// modes writes those of the block at hand.
func (p *postgres) modes() string {
	if p.status == wire.Idle {
		return ""
	}
	return strings.ToLower(string(p.block.modes.AppendBegin(nil)))
}
