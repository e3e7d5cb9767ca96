package catalog

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pgpilot/pgpilot/libs/lab/labtest"
	"github.com/pgpilot/pgpilot/libs/verdict"
)

// slowTeller stands for a list of names that takes long to be told of.
type slowTeller struct {
	slog.Handler
	told chan<- struct{}
	let  <-chan struct{}
}

func (s slowTeller) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "routing.read_functions") {
		s.told <- struct{}{}
		<-s.let
	}
	return s.Handler.Handle(ctx, r)
}

func (s slowTeller) WithAttrs(a []slog.Attr) slog.Handler {
	return slowTeller{s.Handler.WithAttrs(a), s.told, s.let}
}

// Whoever misspells many functions learns of it, and statements are judged meanwhile, by what
// the catalog has become.
func TestTellingOfMissingFunctionsHoldsNothingUp(t *testing.T) {
	c := labtest.Start(t, 0)
	told, let := make(chan struct{}, 1), make(chan struct{})
	d := open(t, c, func(o *Options) {
		o.Reads = []string{"public.totl"}
		o.Log = slog.New(slowTeller{o.Log.Handler(), told, let})
	})
	defer close(let)
	d.eventually(t, "SELECT relname FROM pg_class", verdict.Read)
	<-told
	exec(t, connect(t, c.Primary().DSN()), "CREATE TABLE fresh (id int)")
	d.eventually(t, "SELECT * FROM fresh", verdict.Read)
	d.Set(*login(c), nil, patience)
}
